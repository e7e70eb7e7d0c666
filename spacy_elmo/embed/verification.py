"""Verification that every token is there once, with the right vector, and repair."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import Errors
from ..files import named_path, sync_folder
from ..machine import default_settings
from ..text import Source, open_source
from .folder import SHARDS, names_of_shards
from .keep import pack
from .model import Encoder, processor
from .plan import Plan, Range, read_plan
from .planning import make_encoder
from .shard import Shard, expect
from .worker import Columns, Unit, make_rows, read_units

# Largest difference between processors, relative to the largest value of a row: that of
# float32 arithmetic, or one step of the other types.
TOLERANCE = {"float32": 1e-5, "float16": 1e-3, "int8": 1e-2}
AT_LEAST = 100  # sentences or documents to recompute, if there are as many


class _UnreadableInputError(Exception):
    """An input can't be read, which is the fault of no shard."""


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
    encoder = make_encoder(plan, output, gpu_id=gpu_id)
    names = names_of_shards(output)
    sample = 1.0 if full else max(sample, _at_least(plan, len(names)))
    checker = _Checker(plan, output, encoder, sample, seed)
    left = set(names)
    try:
        for number in range(plan.n_jobs):
            left -= checker.check_job(number, names)
    except _UnreadableInputError as error:
        raise error.args[0] from None
    checker.report.problems += [Problem(n, "is not of this plan") for n in sorted(left)]
    return checker.report


def _at_least(plan: Plan, n_shards: int) -> float:
    """Return the smallest share for a sample."""
    if not plan.computing.exact:
        return 1 / max(1, n_shards)
    what = "documents" if plan.kept.pool == "doc" else "sentences"
    return AT_LEAST / max(AT_LEAST, plan.estimate[what])


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

    def check_job(self, number: int, names: set[str]) -> set[str]:
        """Check the shards of a job. Return their names."""
        seen: set[str] = set()
        mine = {name for name in names if name.startswith(f"{number:08d}")}
        source: Source | None = None
        for shard in self.plan.ranges(number):
            problem, is_last = "is missing", False
            if shard.name in names:
                seen.add(shard.name)
                described = self.plan.inputs[shard.source]
                source = source or open_source(described, self.plan.piece)
                try:
                    is_last = self._check(shard, source)
                    problem = ""
                except (ValueError, LookupError) as error:
                    problem = str(error)
            if problem:
                self.report.problems.append(Problem(shard.name, problem))
            if is_last or (problem and not mine - seen):
                break
        if source is not None:
            source.close()
        return seen

    def _check(self, shard: Range, source: Source) -> bool:
        """Return whether the shard is the last of its job. Raises ValueError."""
        source.take_checksum()  # forgets what was read before this shard
        path = self.output / SHARDS / shard.name
        stored = self.plan.read(path)
        header = stored.header
        expect("plan", header["plan"], self.plan.hash)
        expect("name", header["shard"], shard.name)
        stored.check_arrays(path)
        columns = Columns(self.plan.kept.pool, shard.source)
        units = read_units(self.plan, self._reader, source, shard, columns)
        recomputed, wrong = self._compare_rows(stored, _from_input(units))
        expect("checksum of the input", header["input"], source.take_checksum())
        counts = {**columns.counts, "rows": stored.n_rows}
        expect("counts", header["counts"], counts)
        for name, array in columns.arrays().items():
            if not np.array_equal(array, stored.arrays[name]):
                raise ValueError(f"its {name} are not those of the input")
        is_last = source.at_end if shard.is_last is None else shard.is_last
        place = [header["continues"], header["last"]]
        expect("place", place, [columns.continues, is_last])
        if wrong is not None:  # the text itself is right
            raise ValueError(f"the vectors from row {wrong} are not the model's")
        self.report.shards += 1
        self.report.counts.update(counts)
        self.report.recomputed += recomputed
        return is_last

    def _compare_rows(
        self, stored: Shard, units: Iterable[Unit]
    ) -> tuple[int, int | None]:
        """Recompute some rows. Return how many, and the number of the first that is not
        as stored; None if there is no such row."""
        dtype, recomputed, wrong = self.plan.kept.dtype, 0, None
        for first, rows in make_rows(self._chosen(units), self.plan, self.encoder):
            last = first + len(rows)
            found, expected = stored.read_rows(first, last), pack(rows, dtype)
            if stored.header["processor"] == self._processor:
                same = np.array_equal(found, expected[0])
                if expected[1] is not None:
                    scales = stored.arrays["scales"][first:last]
                    same &= np.array_equal(scales, expected[1])
            else:
                bound = TOLERANCE[dtype] * np.abs(rows).max(initial=0)
                difference = np.abs(stored.vectors(first, last) - rows)
                same = bool((difference <= bound).all())
            if not same and wrong is None:
                wrong = first
            recomputed += len(rows)
        return recomputed, wrong

    def _choose(self) -> bool:
        return self._random.random() < self._sample or not self._has_chosen

    def _chosen(self, units: Iterable[Unit]) -> Iterator[Unit]:
        """Yield a sample of the units; all or none, if they depend on one another. The
        very first unit is in every sample."""
        by_shard = not self.plan.computing.exact
        before, chosen = -1, by_shard and self._choose()
        if by_shard and chosen:
            self.encoder.start_shard()
        for row, tokens in units:
            if row != before and not by_shard:
                before, chosen = row, self._choose()
            if chosen:
                self._has_chosen = True
                yield row, tokens


def _from_input(units: Iterable[Unit]) -> Iterator[Unit]:
    """Yield units of an input. Raises _UnreadableInputError if it can't be read."""
    try:
        yield from units
    except (ValueError, LookupError, OSError) as error:
        raise _UnreadableInputError(error) from error
