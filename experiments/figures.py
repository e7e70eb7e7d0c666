"""Plots of runs. Each function returns whether there was anything to draw.

runs: the folder that what was found was read from.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import spacy

from spacy_elmo.files import new_figure
from spacy_elmo.files.plots import save
from spacy_elmo.pipeline import draw_mixes as draw
from spacy_elmo.pipeline import learned_mixes

from .scores import SHARES, Found, by_share, read_speeds, scores
from .table import find_task

BOTH = {"baseline": "without ELMo", "elmo": "with ELMo"}


def _axes(tasks: Sequence[str], width: float, output: Path) -> tuple[Any, list[Any]]:
    figure = new_figure(width * len(tasks), 3.0, output)
    return figure, list(figure.subplots(1, len(tasks), squeeze=False)[0])


def _title(task: str) -> str:
    return find_task(task).title or task


def draw_learning(found: Found, tasks: Sequence[str], runs: Path, output: Path) -> bool:
    """Dev score after so many updates, mean over seeds"""
    shown = [t for t in tasks if all(found[t, name] for name in BOTH)]
    if not shown:
        return False
    figure, all_axes = _axes(shown, 2.6, output)
    for axes, task in zip(all_axes, shown):
        for name, label in BOTH.items():
            histories = [run["history"] for run in found[task, name]]
            points = [
                (rows[0]["step"], 100 * statistics.mean(row["score"] for row in rows))
                for rows in zip(*histories)
            ]
            axes.plot(*zip(*points), label=label)
            if name == "baseline":  # its first updates are far below what matters
                bottom = points[len(points) // 4][1]
        axes.set_ylim(bottom=bottom)  # at the end, since the top stays from then on
        axes.set(title=_title(task), xlabel="updates")
        axes.grid(alpha=0.3)
    all_axes[0].set_ylabel("dev score, %")
    all_axes[-1].legend()
    save(figure, output)
    return True


def draw_shares(found: Found, tasks: Sequence[str], runs: Path, output: Path) -> bool:
    """Test score against the share of the training sentences"""
    shown = [task for task in tasks if found[task, "elmo 10%"]]
    if not shown:
        return False
    figure, all_axes = _axes(shown, 3.4, output)
    for axes, task in zip(all_axes, shown):
        for name, label in BOTH.items():
            points = [
                (share, statistics.mean(values))
                for share, values in by_share(found, task, name).items()
                if values
            ]
            axes.plot(*zip(*points), marker="o", label=label)
        axes.set(title=_title(task), xlabel="% of training sentences", xscale="log")
        axes.set_xticks(SHARES, [str(share) for share in SHARES])
        axes.grid(alpha=0.3)
    all_axes[-1].legend()
    save(figure, output)
    return True


def draw_speeds(found: Found, tasks: Sequence[str], runs: Path, output: Path) -> bool:
    """Test score against words a second of a whole pipeline, on one thread"""
    speeds = read_speeds(runs)
    points = {
        task: {
            name: (speed.words, 100 * statistics.mean(scores(found[task, name])))
            for name, speed in speeds.items()
            if found[task, name]
        }
        for task in tasks
    }
    shown = [task for task in tasks if len(points[task]) > 1]
    if not shown:
        return False
    figure, all_axes = _axes(shown, 2.9, output)
    for axes, task in zip(all_axes, shown):
        for name, marker in zip(speeds, "osD^v*"):  # also by form, for all eyes
            place = points[task].get(name, ([], []))
            axes.plot(*place, marker, markersize=8, label=name)
        axes.set(title=_title(task), xlabel="words/s", xscale="log")
        axes.margins(0.15)
        axes.grid(alpha=0.3)
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside right")
    save(figure, output)
    return True


def draw_mixes(found: Found, tasks: Sequence[str], runs: Path, output: Path) -> bool:
    """Shares of the biLM's layers in each component's mix"""
    mixes = []
    for task in tasks:
        for run in found[task, "elmo"][:1]:
            folder = runs / task / "elmo" / str(run["seed"]) / "model-best"
            if folder.exists():
                mixes += [
                    replace(mix, component=task)
                    for mix in learned_mixes(spacy.load(folder))
                ]
    if mixes:
        draw(mixes, output)
    return bool(mixes)
