"""Verification that every token is there once with the right vector, and repair."""

import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .checksums import Checksum, bytes_of
from .columns import Columns
from .folder import SHARDS, names_of_shards, sync_folder
from .keep import pack, unpack
from .model import Encoder, processor
from .plan import Plan, Range, read_plan
from .planning import make_encoder
from .records import Source, open_source
from .sentences import Reader
from .shards import Unit, make_rows, read_units
from .sinks import Shard

ROWS_AT_ONCE = 4096
# Largest difference between processors, relative to the largest value of a row: of
# float32 arithmetic, and of one step of the other types.
TOLERANCE = {"float32": 1e-5, "float16": 1e-3, "int8": 1e-2}
_SHARD_NAME = re.compile(r"\d{8}(-\d{6})?\.\w+")


@dataclass(frozen=True)
class Problem:
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
    counts: dict[str, int] = field(default_factory=dict)
    recomputed: int = 0


def verify(
    output: Path,
    *,
    sample: float = 0.001,
    full: bool = False,
    seed: int = 0,
    encoder: Encoder | None = None,
    gpu_id: int = 0,
    watch: Callable[[], object] = lambda: None,
) -> Report:
    """Check every shard of a folder's plan against its inputs, which are read again.

    Args:
        output: The folder.
        sample: Share of the sentences, pooled documents or, if they depend on one
            another, shards whose rows are recomputed and compared.
        full: Whether to recompute all.
        seed: Of the choice.
        encoder: Of the plan, if there is one already.
        gpu_id: As of `Encoder`.
        watch: Called after each job.
    """
    plan = read_plan(output)
    encoder = encoder or make_encoder(plan, output, gpu_id=gpu_id)
    checker = _Checker(plan, output, encoder, 1.0 if full else sample, seed)
    names = names_of_shards(output)
    seen: set[str] = set()
    for number in range(plan.n_jobs):
        seen |= checker.check_job(number, names)
        watch()
    for name in sorted(names - seen):
        checker.report.problems.append(Problem(name, "is not of this plan"))
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
        self._sample, self._random = sample, random.Random(seed)  # noqa: S311  (a sample, no secret)
        self._reader = Reader(plan.reading)
        self._processor = processor(plan.computing.device)

    def check_job(self, number: int, names: set[str]) -> set[str]:
        """Check the shards of a job. Return their names."""
        seen: set[str] = set()
        prefix = f"{number:08d}"
        mine = {name for name in names if name.startswith(prefix)}
        source: Source | None = None
        try:
            for shard in self.plan.ranges(number):
                if shard.name not in names:
                    self._problem(shard, "is missing")
                    if not mine - seen:
                        break
                    continue
                seen.add(shard.name)
                try:
                    if source is None:
                        described = self.plan.inputs[shard.source]
                        source = open_source(described, self.plan.piece)
                    is_last = self._check(shard, source)
                except (ValueError, LookupError, OSError) as error:
                    self._problem(shard, str(error))
                    is_last = not mine - seen
                if is_last:
                    break
        finally:
            if source is not None:
                source.close()
        return seen

    def _problem(self, shard: Range, problem: str) -> None:
        self.report.problems.append(Problem(shard.name, problem))

    def _check(self, shard: Range, source: Source) -> bool:
        """Return whether the shard is the last of its job. Raises ValueError."""
        stored = self.plan.format.read(self.output / SHARDS / shard.name)
        header = stored.header
        _expect("plan", header["plan"], self.plan.hash)
        _expect("name", header["shard"], shard.name)
        _check_arrays(stored)
        columns = Columns(self.plan.kept.pool, f"{shard.source}:")
        units = read_units(self.plan, self._reader, source, shard, columns)
        self._compare_rows(stored, units)
        _expect("checksum of the input", header["input"], source.take_checksum())
        n_rows = header["arrays"]["vectors"]["shape"][0]
        _expect("counts", header["counts"], {**columns.counts(), "rows": n_rows})
        for name, array in columns.arrays().items():
            if not np.array_equal(array, stored.arrays[name]):
                raise ValueError(f"its {name} are not those of the input")
        is_last = source.at_end if shard.is_last is None else shard.is_last
        _expect("place", [header["continues"], header["last"]],
                [columns.continues, is_last])  # fmt: skip
        self.report.shards += 1
        for name, count in header["counts"].items():
            self.report.counts[name] = self.report.counts.get(name, 0) + count
        return bool(header["last"])

    def _compare_rows(self, stored: Shard, units: Iterable[Unit]) -> None:
        """Recompute some rows. Raises ValueError if they are not what is stored."""
        exact = self.plan.computing.exact
        whole = not exact and self._random.random() < self._sample
        if whole:
            self.encoder.start_shard()
        chosen = self._chosen(units, None if exact else whole)
        offsets = stored.arrays.get("sentence_offsets")
        by_token = self.plan.kept.pool == "token"
        dtype = self.plan.kept.dtype
        done = 0
        for unit, rows in make_rows(chosen, self.plan, self.encoder):
            first = int(offsets[unit]) if by_token and offsets is not None else unit
            found = stored.read_rows(first, first + len(rows))
            scales = stored.arrays.get("scales")
            scales = None if scales is None else scales[first : first + len(rows)]
            expected, expected_scales = pack(rows, dtype)
            if stored.header["processor"] == self._processor:
                same = np.array_equal(found, expected)
                if scales is not None and expected_scales is not None:
                    same &= np.array_equal(scales, expected_scales)
            else:
                bound = TOLERANCE[dtype] * np.abs(rows).max(initial=0)
                same = bool((np.abs(unpack(found, scales) - rows) <= bound).all())
            if not same:
                raise ValueError(f"the vectors from row {first} are not the model's")
            done += len(rows)
        self.report.recomputed += done

    def _chosen(self, units: Iterable[Unit], whole: bool | None) -> Iterator[Unit]:
        """Yield a sample of the units or, where `whole` is given, all or none."""
        unit, chosen = -1, False
        for number, tokens in units:
            if number != unit:
                unit = number
                chosen = self._random.random() < self._sample
            if chosen if whole is None else whole:
                yield number, tokens


def _expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise ValueError(f"its {what} is {found}, not {expected}")


def _check_arrays(stored: Shard) -> None:
    """Check that the arrays are what the header says. Raises ValueError."""
    for name, said in stored.header["arrays"].items():
        if name == "vectors":
            checksum = Checksum()
            for start in range(0, said["shape"][0], ROWS_AT_ONCE):
                rows = stored.read_rows(start, start + ROWS_AT_ONCE)
                checksum.add(bytes_of(rows))
        else:
            array = stored.arrays[name]
            _expect(f"{name}'s type", array.dtype.name, said["dtype"])
            checksum = Checksum(bytes_of(array))
        _expect(f"checksum of {name}", checksum.hexdigest(), said["checksum"])
