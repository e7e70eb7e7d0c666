"""How far a folder is, how fast it grows, and how long it will take."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from .folder import SHARDS, names_of_shards, workers_of
from .plan import Plan

SECONDS = 1.0  # between two looks at the folder


@dataclass(frozen=True)
class State:
    """How far a folder is.

    Attributes:
        jobs: Jobs that are done.
        n_bytes: Bytes of the inputs that were read.
        workers: Processes at work.
        tokens_per_second: Of all of them.
        seconds_left: None if there are none.
    """

    jobs: int
    n_bytes: int
    workers: int
    tokens_per_second: float
    seconds_left: float | None


class Progress:
    """Looks at a folder that any number of processes write to.

    Args:
        plan: Its plan.
        output: The folder.
        show: Whether to show a bar.
    """

    def __init__(self, plan: Plan, output: Path, *, show: bool = False) -> None:
        self.plan, self.output = plan, output
        self._left = set(range(plan.n_jobs))
        self._n_bytes = 0
        self._looked = 0.0
        self.total = sum(map(plan.job_bytes, self._left))
        self._bar: Any = tqdm(
            total=self.total,
            unit="B",
            unit_scale=True,
            desc="embedding",
            disable=not show,
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}",
        )

    def look(self) -> State:
        """Return how far the folder is now."""
        names = names_of_shards(self.output)
        for number in [n for n in self._left if self._is_done(n, names)]:
            self._left.discard(number)
            self._n_bytes += self.plan.job_bytes(number)
        workers = list(workers_of(self.output))
        n_bytes = self._n_bytes + sum(worker["job_bytes"] for worker in workers)
        speeds = [
            (w["tokens"] / w["seconds"], w["bytes"] / w["seconds"]) for w in workers
        ]
        rate = sum(speed for _, speed in speeds)
        return State(
            jobs=self.plan.n_jobs - len(self._left),
            n_bytes=min(n_bytes, self.total),
            workers=len(workers),
            tokens_per_second=sum(w["tokens"] / w["seconds"] for w in workers),
            seconds_left=max(0, self.total - n_bytes) / rate if rate else None,
        )

    def _is_done(self, number: int, names: set[str]) -> bool:
        first = next(self.plan.ranges(number)).name
        return first in names and self.plan.is_done(number, names, self.output)

    def show(self) -> None:
        """Update the bar, once per second at most."""
        if self._bar.disable or time.monotonic() - self._looked < SECONDS:
            return
        state = self.look()
        self._looked = time.monotonic()
        self._bar.n = state.n_bytes
        said = f", {state.tokens_per_second:,.0f} tokens/s"
        if state.seconds_left is not None:
            said += f", {tqdm.format_interval(state.seconds_left)} left"
        self._bar.set_postfix_str(said.lstrip(", "))

    def close(self) -> None:
        """End the bar."""
        self._bar.close()


def rounding_error(plan: Plan, output: Path) -> dict[str, float]:
    """Return the root of the mean squared error of rounding, relative to the values,
    and the largest error, over the shards that are there."""
    sums = {"squared_error": 0.0, "squared_value": 0.0, "largest": 0.0}
    for name in names_of_shards(output):
        error = plan.format.read(output / SHARDS / name).header["error"]
        for key in ("squared_error", "squared_value"):
            sums[key] += error[key]
        sums["largest"] = max(sums["largest"], error["largest"])
    relative = (sums["squared_error"] / (sums["squared_value"] or 1.0)) ** 0.5
    return {"relative_error": relative, "largest_error": sums["largest"]}
