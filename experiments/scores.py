"""What runs have found: their metrics by task and setup, and speeds of setups."""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

Found = dict[tuple[str, str], list[dict[str, Any]]]

METRICS = "metrics.json"
SPEEDS = "speeds.json"  # what `experiments.speeds` measured
SHARES = (1, 3, 10, 30, 100)


class Speed(NamedTuple):
    """Words a second of a whole pipeline on one thread, and its size on a disk."""

    words: float
    megabytes: float


def read_speeds(folder: Path) -> dict[str, Speed]:
    """Return the speeds of an experiment's setups, {} if they were not measured."""
    path = folder / SPEEDS
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {name: Speed(**speed) for name, speed in found.items()}


def read(folder: Path, *, dev: bool = False) -> Found:
    """Return the metrics of all runs of an experiment, by task and setup.

    Args:
        folder: Of the experiment.
        dev: Whether `score` is the best on the development set, by spaCy's weights,
            in place of that on the test set.

    Raises:
        ValueError: Runs of a task and a setup differ in more than their seeds, so that
            a mean of them says nothing.
    """
    found: Found = defaultdict(list)
    for path in sorted(folder.glob(f"*/*/*/{METRICS}")):
        metrics = json.loads(path.read_text(encoding="utf-8"))
        others = found[metrics["task"], metrics["setup"]]
        if others and others[0].get("recipe") != metrics.get("recipe"):
            raise ValueError(
                f"Runs in '{path.parent.parent}' were made with different settings, "
                "corpora or weights. Make them again with --force, or remove those "
                "that are old."
            )
        if dev:
            metrics["score"] = max(row["score"] for row in metrics["history"])
        others.append(metrics)
    return found


def scores(runs: Iterable[dict[str, Any]]) -> list[float]:
    return [run["score"] for run in runs]


def by_share(found: Found, task: str, setup: str) -> dict[int, list[float]]:
    """Return scores by per cent of the training sentences."""
    names = {n: setup if n == 100 else f"{setup} {n}%" for n in SHARES}
    return {n: scores(found[task, name]) for n, name in names.items()}
