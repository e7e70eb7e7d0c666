"""Verification that every token is there once, with the right vector, and repair."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import Errors
from ..files import named_path, parsing, sync_folder
from ..machine import default_settings
from ..text import Source
from .folder import SHARDS, names_of_shards
from .model import Encoder, Unit, pack, processor, unpack
from .plan import Plan, Range, read_plan
from .shard import Shard, expect
from .worker import ShardText

# Largest difference between processors, relative to the largest value of a row: that of
# float32 arithmetic, or one step of the other types.
TOLERANCE = {"float32": 1e-5, "float16": 1e-3, "int8": 1e-2}
AT_LEAST = 100  # sentences or documents to recompute, if there are as many


class Problem(NamedTuple):
    """Name of a file, and what is wrong with it."""

    shard: str
    problem: str


@dataclass
class Report:
    """The result of a verification.

    Attributes:
        problems: None if all is well.
        shards: Shards without a problem.
        counts: Documents, sentences, tokens and rows in them.
        recomputed: Rows that were recomputed and compared.
    """

    problems: list[Problem] = field(default_factory=list)
    shards: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    recomputed: int = 0


@default_settings()
def verify(
    output: str | Path,
    *,
    sample: float = 0.001,
    full: bool = False,
    seed: int = 0,
    gpu_id: int = 0,
) -> Report:
    """Read the inputs of a plan again, and check every shard against them.

    Args:
        output: The folder of the plan.
        sample: Share of the sentences, or pooled documents, that are computed again and
            compared; about 100 at least. If the vectors of a shard depend on one
            another, it is a share of the shards, and one at least.
        full: Whether to compute all vectors again.
        seed: Seed of the random choice.
        gpu_id: Number of the GPU, if the device is "cuda".

    Raises:
        ValueError: [EL207] The sample is not from 0 to 1. [EL204, EL205, EL209] An
            input, the model or the pipeline has changed.
        OSError: [EL030] An input, or a shard that exists, can't be read.
    """
    if not 0.0 <= sample <= 1.0:
        raise Errors.EL207(name="sample", found=sample, known="0 to 1")
    output = named_path(output)
    plan = read_plan(output)
    encoder = plan.encoder(output, gpu_id=gpu_id)
    left = names_of_shards(output)
    if plan.computing.exact:
        what = "documents" if plan.kept.pool == "doc" else "sentences"
        smallest = AT_LEAST / max(AT_LEAST, plan.estimate[what])
    else:
        smallest = 1 / max(1, len(left))
    sample = 1.0 if full else max(sample, smallest)
    checker = _Checker(plan, output, encoder, sample, seed)
    for number in range(plan.n_jobs):
        checker.check_job(number, left)
    checker.report.problems += [Problem(n, "is not of this plan") for n in sorted(left)]
    return checker.report


def repair(output: str | Path, report: Report) -> int:
    """Remove the shards that have a problem, so that `run` makes them again. Return
    the number of removed files. Raises OSError [EL013] if one can't be removed."""
    output, removed = named_path(output), 0
    for problem in report.problems:
        path = output / SHARDS / problem.shard
        if path.exists():
            try:
                path.unlink()
            except OSError as error:
                raise Errors.EL013(path=path, error=error) from error
            removed += 1
    if removed:
        sync_folder(output / SHARDS)
    return removed


class _Checker:
    def __init__(
        self, plan: Plan, output: Path, encoder: Encoder, sample: float, seed: int
    ) -> None:
        self.plan, self.output, self.encoder = plan, output, encoder
        self.report = Report()
        self._sample, self._random = sample, random.Random(seed)  # noqa: S311
        self._has_chosen = False
        self._reader = plan.reader()
        self._processor = processor(plan.computing.device)

    def check_job(self, number: int, left: set[str]) -> None:
        """Check the shards of a job, and remove their names from those that are
        left."""
        source: Source | None = None
        with ExitStack() as scope:
            for shard in self.plan.ranges(number):
                problem, is_last = "is missing", False
                if shard.name in left:
                    left.remove(shard.name)
                    if source is None:
                        opened = closing(self.plan.open_input(number))
                        source = scope.enter_context(opened)
                    try:
                        is_last, problem = self._check(shard, source), ""
                    except Errors.EL208 as error:
                        if isinstance(error.__cause__, MemoryError):
                            raise error.__cause__ from None  # the shard is not to blame
                        problem = str(error)
                if problem:
                    self.report.problems.append(Problem(shard.name, problem))
                    begin, end = f"{number:08d}-", f".{self.plan.sink}"
                    later = (n for n in left if n.startswith(begin) and n.endswith(end))
                    is_last = shard.is_last or shard.name > max(later, default="")
                if is_last:
                    break

    def _check(self, shard: Range, source: Source) -> bool:
        """Return whether the shard is the last of its job. Raises ValueError [EL208] if
        it is not what the plan and the input make."""
        source.take_checksum()  # forgets what was read before this shard
        path = self.output / SHARDS / shard.name
        stored = self.plan.read(path)
        header = stored.header
        with parsing(Errors.EL208, path):
            stored.check_arrays(path)
        text = ShardText(self.plan, shard, self._reader, source)
        recomputed, wrong = self._compare_rows(stored, text.units(), path)
        expected = text.header(header["processor"], stored.n_rows)
        arrays = text.arrays()
        with parsing(Errors.EL208, path):
            for name, value in expected.items():
                what = "checksum of the input" if name == "input" else name
                expect(what, header[name], value)
            for name, array in arrays.items():
                if not np.array_equal(array, stored.arrays[name]):
                    raise ValueError(f"its {name} are not those of the input")
            if wrong is not None:  # the text itself is right
                raise ValueError(f"the vectors from row {wrong} are not the model's")
        self.report.shards += 1
        self.report.counts.update(expected["counts"])
        self.report.recomputed += recomputed
        return bool(expected["last"])

    def _compare_rows(
        self, stored: Shard, units: Iterable[Unit], path: Path
    ) -> tuple[int, int | None]:
        """Recompute some rows. Return how many, and the number of the first that is not
        as stored; None if there is no such row."""
        dtype, recomputed, wrong = self.plan.kept.dtype, 0, None
        is_ours = stored.header["processor"] == self._processor
        tolerance = 0.0 if is_ours else TOLERANCE[dtype]
        for first, rows in self.encoder.rows(self._chosen(units)):
            expected = unpack(*pack(rows, dtype))
            with parsing(Errors.EL208, path):
                found = stored.vectors(first, first + len(rows))
            bound = tolerance * np.abs(rows).max(initial=0)
            same = found.shape == expected.shape
            if not (same and (np.abs(found - expected) <= bound).all()):
                wrong = first if wrong is None else wrong
            recomputed += len(rows)
        return recomputed, wrong

    def _chosen(self, units: Iterable[Unit]) -> Iterator[Unit]:
        """Yield the units of a sample of the rows; all or none, if the rows depend on
        one another. The very first row is in every sample."""
        exact = self.plan.computing.exact
        for _, of_row in groupby(units, lambda unit: unit[0] if exact else 0):
            if self._random.random() < self._sample or not self._has_chosen:
                self._has_chosen = True
                yield from of_row
