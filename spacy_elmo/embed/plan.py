"""The plan: all that the bytes of the vectors depend on, written before any vector.

A plan has jobs, each for one worker. Of a file that can be read from anywhere, a job is
a range of bytes, and makes one shard. A file that must be read from its beginning is
one job, which makes as many shards as it finds. Jobs are cut by size alone: the
contents are not read.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import spacy
import torch
from pydantic import TypeAdapter

from .. import __version__
from ..bilm import BiLM
from ..bilm.kernels import forced_kernels
from ..errors import Errors
from ..files import (
    MAX_WORDS,
    decode,
    named_path,
    new_checksum,
    parsing,
    publish,
    reading,
)
from ..models import installed
from ..text import (
    KINDS,
    MAX_PIECE,
    UNPACK,
    Reader,
    Reading,
    Source,
    TextFile,
    open_source,
)
from .folder import SHARDS, Workspace, names_of_shards, writing
from .model import Computing, Encoder, Kept, check_setting, load_model
from .older import READERS
from .shard import Shard

PLAN, STORED = "plan.json", "safetensors"
FORMAT_VERSION = 3
# Version 0.2 writes no checksums of inputs, and reads long lines in smaller pieces. Its
# sentences don't end at a line end inside of a document, and it places the words of
# CoNLL-U by their own spelling. Folders that it began are finished in the same way.
OF_VERSION_0_2 = 2
# Entries of an estimate, which `estimate` of planning.py makes.
ESTIMATED = {
    "tokens",
    "sentences",
    "documents",
    "input_bytes",
    "tokens_per_second",
    "bytes",
}


class Range(NamedTuple):
    """The part of the inputs that a shard is made of.

    Attributes:
        name: Name of the file.
        source: Number of the input.
        start: Where the range begins, as `Source.read` counts.
        end: Where it ends.
        is_last: Whether it is the last shard of its job; None if that is known only
            when the input has been read.
    """

    name: str
    source: int
    start: int
    end: int
    is_last: bool | None


@dataclass(frozen=True)
class Plan:
    """All that the bytes of the shards depend on.

    Attributes:
        model: The model, as `load_model` takes it.
        mix_of: The component whose mix is used, as `load_model` takes it.
        fingerprint: Fingerprint of the biLM.
        inputs: The inputs, in order.
        reading: How text becomes sentences.
        kept: The content of a row.
        computing: How vectors are computed.
        sink: What shards are stored as: "safetensors", in version 0.2 perhaps another.
        shard_bytes: Bytes of text for each shard.
        limit: Bytes that are read of each input; None for all.
        versions: Versions of the packages that the vectors depend on.
        projection: Checksum of a file with a projection, of version 0.2.
        estimate: What was estimated when the plan was made. It is not compared.
    """

    model: str
    mix_of: str | None
    fingerprint: str
    inputs: tuple[TextFile, ...]
    reading: Reading
    kept: Kept
    computing: Computing
    sink: str
    shard_bytes: int
    limit: int | None
    versions: dict[str, str]
    projection: str | None = None
    estimate: dict[str, int | float] = field(default_factory=dict, compare=False)
    format_version: int = FORMAT_VERSION

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    @cached_property
    def hash(self) -> str:
        """The hash of the plan, which every shard has in its header."""
        text = json.dumps(self.fixed(), sort_keys=True)
        return new_checksum(text.encode()).hexdigest()

    def fixed(self) -> dict[str, Any]:
        """Return everything but the estimate, in types that JSON has."""
        found: dict[str, Any] = _JSON.dump_python(self, mode="json")
        del found["estimate"]
        if self.format_version == OF_VERSION_0_2:
            for source in found["inputs"]:
                del source["checksum"], source["document"]
        return found

    def reader(self) -> Reader:
        """Return a reader of the inputs. Raises as `Reader`."""
        return Reader(self.reading, naive=self.format_version == OF_VERSION_0_2)

    def encoder(
        self, output: Path, bilm: BiLM | None = None, *, gpu_id: int = 0
    ) -> Encoder:
        """Return the encoder of the plan.

        Args:
            output: The folder of the plan, for messages.
            bilm: Its model; None to load it.
            gpu_id: Number of the GPU where the device is "cuda".

        Raises:
            ValueError: [EL151] There is no such GPU. [EL209] The model has changed.
                [EL201] A package has another version, or other kernels are forced.
                [EL207] The vectors are projected, which only version 0.2 did.
        """
        if bilm is None:  # a plan has absolute paths, or names of what is installed
            found = installed().get(self.model)
            model = self.model if found is None else str(found.folder)
            is_installed = spacy.util.is_package(model)
            bilm = load_model(model, self.mix_of, is_installed=is_installed)[0]
        if self.format_version == OF_VERSION_0_2:
            bilm.form = None  # words were read as they are
        if bilm.fingerprint() != self.fingerprint:
            raise Errors.EL209(model=self.model)
        if versions() != self.versions:
            differs = f"versions are {versions()}, were {self.versions}"
            raise Errors.EL201(path=output, differs=differs)
        if kernels_asked_for() not in ((), self.computing.kernels):
            raise Errors.EL201(path=output, differs="computing.kernels")
        if self.kept.dimensions is not None:  # of version 0.2
            check_setting("dimensions", self.kept.dimensions, ("the width of a layer",))
        return Encoder(bilm, self.kept, self.computing, gpu_id)

    # -- jobs and shards ----------------------------------------------------------

    @property
    def piece(self) -> int:
        """Bytes of a line that are read at once."""
        most = 1 << 16 if self.format_version == OF_VERSION_0_2 else MAX_PIECE
        return min(most, self.shard_bytes // 4)

    @cached_property
    def _first_jobs(self) -> list[int]:
        """The number of each input's first job, and of all jobs."""
        sizes = [
            1 if source.is_sequential else -(-self._size(source) // self.shard_bytes)
            for source in self.inputs
        ]
        return [0, *accumulate(sizes)]

    def _size(self, source: TextFile) -> int:
        """Return the bytes of an input that are read; of a compressed one at most."""
        return source.size if self.limit is None else min(source.size, self.limit)

    @property
    def n_jobs(self) -> int:
        """Number of jobs."""
        return self._first_jobs[-1]

    def _source_of(self, number: int) -> int:
        return bisect_right(self._first_jobs, number) - 1

    def open_input(self, number: int) -> Source:
        """Open the input of a job. Raises as `open_source`."""
        return open_source(self.inputs[self._source_of(number)], self.piece)

    def ranges(self, number: int) -> Iterator[Range]:
        """Yield the ranges of a job's shards. They go on without end if the last one is
        known only when the input has been read."""
        source = self._source_of(number)
        suffix, size = f".{self.sink}", self.shard_bytes
        if not self.inputs[source].is_sequential:
            start = (number - self._first_jobs[source]) * size
            end = min(start + size, self._size(self.inputs[source]))
            yield Range(f"{number:08d}{suffix}", source, start, end, True)
            return
        for part in count():
            end, is_last = (part + 1) * size, None
            if self.limit is not None and end >= self.limit:
                end, is_last = self.limit, True
            name = f"{number:08d}-{part:06d}{suffix}"
            yield Range(name, source, part * size, end, is_last)
            if is_last:
                return

    def job_bytes(self, number: int) -> int:
        """Return the bytes of the input that a job reads."""
        one = next(self.ranges(number))
        source = self.inputs[one.source]
        return self._size(source) if source.is_sequential else one.end - one.start

    def read(self, path: Path) -> Shard:
        """Return the shard of a file.

        Raises:
            ValueError: [EL208] It is damaged, or of another plan or name.
            OSError: [EL030] It can't be read, though it may be whole.
        """
        try:
            shard = READERS[self.sink](path)
            with parsing(Errors.EL208, path):
                shard.check_header(self.hash, path.name)
        except Errors.EL208 as error:
            if getattr(error.__cause__, "errno", None) is None:
                raise
            raise Errors.EL030(path=path, error=error.__cause__) from error
        return shard

    def ranges_until_last(self, number: int, output: Path) -> Iterator[Range]:
        """Yield the ranges of a job's shards, up to the last one. The shard of a range
        must be there when the next range is asked for: its header may say that it is
        the last. Raises as `read`."""
        for shard in self.ranges(number):
            yield shard
            is_last = shard.is_last
            if is_last is None:
                is_last = self.read(output / SHARDS / shard.name).header["last"]
            if is_last:
                return

    def is_done(self, number: int, names: set[str], output: Path) -> bool:
        """Return whether all shards of a job are among the names that are there."""
        return all(
            shard.name in names for shard in self.ranges_until_last(number, output)
        )

    def jobs_left(self, output: Path, share: tuple[int, int] = (1, 1)) -> list[int]:
        """Return the jobs of a share that are not done; (3, 64) is the third of 64
        equal shares of all jobs."""
        names = names_of_shards(output)
        mine = range(share[0] - 1, self.n_jobs, share[1])
        return [n for n in mine if not self.is_done(n, names, output)]

    # -- files --------------------------------------------------------------------

    def save(self, output: Path) -> None:
        """Write the plan, unless the folder has one. Raises OSError [EL013]."""
        data = {**self.fixed(), "estimate": self.estimate, "hash": self.hash}
        text = json.dumps(data, indent=1, ensure_ascii=False)
        # A file name that is not UTF-8 is written with escapes, and comes back.
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        with writing(output), Workspace(output) as workspace:
            temporary = workspace.folder / PLAN
            temporary.write_text(text, encoding="utf-8", newline="\n")
            publish(temporary, output / PLAN, replace=False)

    def differences(self, other: "Plan") -> list[str]:
        """Return the names of the settings that differ from a new plan's. Inputs that
        were copied since are the same if their contents are."""
        same = len(self.inputs) == len(other.inputs)
        same = same and all(map(_is_copy, self.inputs, other.inputs))
        inputs = self.inputs if same else other.inputs
        other = replace(other, format_version=self.format_version, inputs=inputs)
        mine, its = _flat(self.fixed()), _flat(other.fixed())
        return [name for name in mine if mine[name] != its.get(name)]


_JSON = TypeAdapter(Plan)


def versions() -> dict[str, str]:
    """Return the versions of the packages that the vectors depend on."""
    return {
        "spacy-elmo": __version__,
        "spacy": spacy.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def kernels_asked_for() -> tuple[tuple[str, str], ...]:
    """Return part and name of each kernel that is forced now, as `Computing` has it."""
    return tuple(sorted(forced_kernels().items()))


def _is_copy(a: TextFile, b: TextFile) -> bool:
    """Return whether two files differ at most in the time of their last change."""
    return a.checksum is not None and a == replace(b, modified=a.modified)


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        inner = isinstance(value, dict)
        found |= _flat(value, f"{name}.") if inner else {f"{prefix}{name}": value}
    return found


def read_plan(output: Path) -> Plan:
    """Return the plan of a folder.

    Raises:
        FileNotFoundError: [EL214] if there is none.
        ValueError: [EL202] if it is damaged.
    """
    path = named_path(output) / PLAN
    if not path.exists():
        raise Errors.EL214(path=output)
    with reading(path, Errors.EL202, max_bytes=MAX_WORDS):
        data = json.loads(decode(path.read_bytes()))
        expected = data.pop("hash")
        plan = _JSON.validate_python(data)
        known = (OF_VERSION_0_2, FORMAT_VERSION)
        if plan.hash != expected or plan.format_version not in known:
            raise ValueError("it was changed, or is of another version of spacy-elmo")
        check_setting("format", plan.sink, READERS)
        for source in plan.inputs:
            if source.kind not in KINDS or source.compression not in UNPACK:
                raise ValueError(f"'{source.path}' is of an unknown kind")
        if missing := ESTIMATED - plan.estimate.keys():
            raise ValueError(f"its estimate lacks {sorted(missing)}")
    return plan
