"""Progress of a folder: how far it is, how fast it grows, how long it will take."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from .folder import SHARDS, names_of_shards, workers_of
from .plan import Plan
from .shard import Rounding

SECONDS = 1.0  # between two updates of the bar, at least
SHARE = 0.02  # of the time, at most, for updates: one of 300,000 shards takes seconds


@dataclass(frozen=True)
class State:
    """How far a folder is.

    Attributes:
        jobs: Jobs that are done.
        n_bytes: Bytes of the inputs that were read.
        workers: Processes at work.
        tokens_per_second: Speed of all of them.
        seconds_left: Until the end at this speed; None if it is not known.
    """

    jobs: int
    n_bytes: int
    workers: int
    tokens_per_second: float
    seconds_left: float | None


class Progress:
    """Watches a folder that any number of processes write to, and can show a bar."""

    def __init__(self, plan: Plan, output: Path, *, show: bool = False) -> None:
        self.plan, self.output = plan, output
        self._left = {n: plan.job_bytes(n) for n in range(plan.n_jobs)}
        self.total = sum(self._left.values())
        self._next, self._has_looked = 0.0, False
        self._bar: Any = tqdm(
            total=self.total,
            unit="B",
            unit_scale=True,
            disable=not show,
            desc="embedding",
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}",
        )

    def look(self) -> State:
        """Return how far the folder is now."""
        names = names_of_shards(self.output)
        for number in list(self._left):
            if self.plan.is_done(number, names, self.output):
                del self._left[number]
        workers = list(workers_of(self.output))
        n_bytes = self.total - sum(self._left.values())
        n_bytes += sum(worker["job_bytes"] for worker in workers)
        # Never zero, though the clock may not have moved yet.
        seconds = [max(worker["seconds"], 1e-9) for worker in workers]
        rate = sum(w["bytes"] / s for w, s in zip(workers, seconds))
        return State(
            jobs=self.plan.n_jobs - len(self._left),
            n_bytes=round(min(n_bytes, self.total)),
            workers=len(workers),
            tokens_per_second=sum(w["tokens"] / s for w, s in zip(workers, seconds)),
            seconds_left=max(0, self.total - n_bytes) / rate if rate else None,
        )

    def show(self) -> None:
        """Update the bar, if that is not too soon."""
        began = time.monotonic()
        if self._bar.disable or began < self._next:
            return
        state = self.look()
        self._bar.n = state.n_bytes
        said = f"{state.tokens_per_second:,.0f} tokens/s"
        if state.seconds_left is not None:
            said += f", {tqdm.format_interval(state.seconds_left)} left"
        self._bar.set_postfix_str(said)
        ended = time.monotonic()
        # Only the first look is at jobs that were done before.
        pause = (ended - began) / SHARE if self._has_looked else SECONDS
        self._next, self._has_looked = ended + max(SECONDS, pause), True

    def close(self) -> None:
        """End the bar."""
        self._bar.close()


def rounding_error(plan: Plan, output: Path) -> dict[str, float]:
    """Return the errors of rounding in all finished shards: the root of the mean
    squared error, relative to that of the values, and the largest error."""
    names = names_of_shards(output)
    errors = [
        Rounding(**plan.read(output / SHARDS / name).header["error"]) for name in names
    ]
    squared = sum(error.squared_error for error in errors)
    values = sum(error.squared_value for error in errors)
    largest = max((error.largest for error in errors), default=0.0)
    relative = (squared / (values or 1.0)) ** 0.5
    return {"relative_error": relative, "largest_error": largest}
