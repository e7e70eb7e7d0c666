"""Verification that every token is there once with the right vector, and repair."""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..atomic_files import sync_folder
from .folder import SHARDS, names_of_shards
from .keep import pack
from .model import Encoder, processor
from .plan import Plan, Range, read_plan
from .planning import make_encoder
from .records import Source, open_source
from .sentences import Reader
from .shard import Columns, Shard, Unit, expect
from .worker import make_rows, read_units

# Largest difference between processors, relative to the largest value of a row: of
# float32 arithmetic, and of one step of the other types.
TOLERANCE = {"float32": 1e-5, "float16": 1e-3, "int8": 1e-2}
_SHARD_NAME = re.compile(r"\d{8}(-\d{6})?\.\w+")


class Problem(NamedTuple):
    """Name of a file, and what is wrong with it."""

    shard: str
    problem: str


@dataclass
class Report:
    """What was found.

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


def verify(
    output: Path,
    *,
    sample: float = 0.001,
    full: bool = False,
    seed: int = 0,
    gpu_id: int = 0,
) -> Report:
    """Check every shard of a folder's plan against its inputs, which are read again.

    Args:
        output: The folder.
        sample: Share of the sentences, pooled documents or, if they depend on one
            another, shards whose rows are recomputed and compared.
        full: Whether to recompute all.
        seed: Of the choice.
        gpu_id: As of `Encoder`.
    """
    plan = read_plan(output)
    encoder = make_encoder(plan, output, gpu_id=gpu_id)
    checker = _Checker(plan, output, encoder, 1.0 if full else sample, seed)
    names = names_of_shards(output)
    left = set(names)
    for number in range(plan.n_jobs):
        left -= checker.check_job(number, names)
    checker.report.problems += [Problem(n, "is not of this plan") for n in sorted(left)]
    return checker.report


def repair(output: Path, report: Report) -> int:
    """Remove the shards that have a problem, so that `run` makes them again. Files that
    are not named as a shard stay. Return the number of removed files."""
    removed = 0
    for problem in report.problems:
        path = output / SHARDS / problem.shard
        if path.exists() and _SHARD_NAME.fullmatch(problem.shard):
            path.unlink()
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
        self._reader = Reader(plan.reading)
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
                try:
                    described = self.plan.inputs[shard.source]
                    source = source or open_source(described, self.plan.piece)
                    is_last = self._check(shard, source)
                    problem = ""
                except (ValueError, LookupError, OSError) as error:
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
        stored = self.plan.format.read(self.output / SHARDS / shard.name)
        header = stored.header
        expect("plan", header["plan"], self.plan.hash)
        expect("name", header["shard"], shard.name)
        stored.check_arrays()
        columns = Columns(self.plan.kept.pool, shard.source)
        units = read_units(self.plan, self._reader, source, shard, columns)
        recomputed = self._compare_rows(stored, units)
        expect("checksum of the input", header["input"], source.take_checksum())
        counts = {**columns.counts(), "rows": stored.n_rows}
        expect("counts", header["counts"], counts)
        for name, array in columns.arrays().items():
            if not np.array_equal(array, stored.arrays[name]):
                raise ValueError(f"its {name} are not those of the input")
        is_last = source.at_end if shard.is_last is None else shard.is_last
        place = [header["continues"], header["last"]]
        expect("place", place, [columns.continues, is_last])
        self.report.shards += 1
        self.report.counts.update(counts)
        self.report.recomputed += recomputed
        return is_last

    def _compare_rows(self, stored: Shard, units: Iterable[Unit]) -> int:
        """Recompute some rows. Return their number. Raises ValueError if they are not
        what is stored."""
        dtype, recomputed = self.plan.kept.dtype, 0
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
            if not same:
                raise ValueError(f"the vectors from row {first} are not the model's")
            recomputed += len(rows)
        return recomputed

    def _chosen(self, units: Iterable[Unit]) -> Iterator[Unit]:
        """Yield a sample of the units or, where they depend on one another, all or
        none."""
        by_shard = not self.plan.computing.exact
        before, chosen = -1, self._random.random() < self._sample
        if by_shard and chosen:
            self.encoder.start_shard()
        for row, tokens in units:
            if row != before and not by_shard:
                before, chosen = row, self._random.random() < self._sample
            if chosen:
                yield row, tokens
