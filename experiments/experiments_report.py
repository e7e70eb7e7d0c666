"""One report of all experiments that there are: tables in Markdown, and pictures."""

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import spacy
import typer
from wasabi import msg

from spacy_elmo.atomic_files import write_files, write_text
from spacy_elmo.component.mixes import draw, learned_mixes
from spacy_elmo.pictures import new_figure, save

from .experiments import METRICS, TASKS, Run

Found = dict[tuple[str, str], list[dict[str, Any]]]

# What the others are measured against comes first.
MAIN = ("baseline", "spacy pretrain", "elmo", "fine-tuned")
# Further sections: title, and the setups that are compared in it.
SECTIONS = {
    "Other ways": ("baseline", "flat", "elmo", "wide", "domain"),
    "Which layers": (
        "token layer",
        "top",
        "average",
        "lambda 1",
        "lambda 0.1",
        "elmo",
        "lambda 0",
    ),
    "Where": ("elmo", "output", "input and output"),
}
SHARES = (1, 3, 10, 30, 100)
WHAT = {
    "elmo": "ELMo at the input, learned mix (lambda 0.001)",
    "baseline": "hash embeddings, convolutions",
    "flat": "hash embeddings and one layer, both as wide as ELMo's encoder",
    "wide": "ELMo at the input, encoder of width 384",
    "fine-tuned": "the same, its biLM trained along",
    "spacy pretrain": "hash embeddings, convolutions, after spacy pretrain",
    "domain": "ELMo, biLM fine-tuned on biomedical text",
    "output": "ELMo at the encoder's output",
    "input and output": "ELMo at both",
}


def read(output: Path) -> Found:
    found: Found = defaultdict(list)
    for path in sorted(output.glob(f"*/*/*/{METRICS}")):
        metrics = json.loads(path.read_text(encoding="utf-8"))
        found[metrics["task"], metrics["setup"]].append(metrics)
    return found


def scores(runs: Iterable[dict[str, Any]]) -> list[float]:
    return [run["score"] for run in runs]


def cell(values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds, in per cent."""
    if not values:
        return ""
    mean = f"{100 * statistics.mean(values):.2f}"
    if len(values) == 1:
        return f"{mean} (1 seed)"
    return f"{mean} ± {100 * statistics.stdev(values):.2f}"


def errors_saved(baseline: Sequence[float], other: Sequence[float]) -> str:
    """And where the difference says nothing."""
    if not baseline or not other:
        return ""
    before, after = (1 - statistics.mean(values) for values in (baseline, other))
    saved = f"{(before - after) / before:+.1%}" if before else ""
    several = [values for values in (baseline, other) if len(values) > 1]
    if abs(before - after) <= max(map(statistics.stdev, several), default=-1):
        saved += " (no more than seeds differ)"
    return saved


def words_read(updates: int) -> float:
    """About how many words so many updates read: spaCy's batches grow from 100 words to
    1,000, by 0.1 % an update."""
    return sum(min(1000, 100 * 1.001**n) for n in range(updates))


def budget(found: Found) -> str:
    """How many updates the runs had."""
    steps = {run["history"][-1]["step"] for runs in found.values() for run in runs}
    return f"{' or '.join(f'{n:,}' for n in sorted(steps))} updates a run; test sets.\n"


def main_table(found: Found, tasks: Sequence[str]) -> list[Sequence[str]]:
    """The baseline, and what each of the others that were run has and saves."""
    others = [s for s in MAIN[1:] if any(found[task, s] for task in tasks)]
    header = ["", "without ELMo"]
    for setup in others:
        header += [{"elmo": "with ELMo"}.get(setup, setup), "errors saved"]
    rows: list[Sequence[str]] = [header]
    for task in tasks:
        baseline = scores(found[task, MAIN[0]])
        row = [f"{task}, {TASKS[task].score}", cell(baseline)]
        for setup in others:
            other = scores(found[task, setup])
            row += [cell(other), errors_saved(baseline, other)]
        rows.append(row)
    return rows


def setups_table(
    found: Found, tasks: Sequence[str], setups: Sequence[str]
) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [("", *tasks)]
    for setup in setups:
        cells = [cell(scores(found[task, setup])) for task in tasks]
        if any(cells):
            rows.append((WHAT.get(setup, setup), *cells))
    return rows


def reaching_table(found: Found, tasks: Sequence[str]) -> list[Sequence[str]]:
    """Updates, words and seconds until ELMo's side has the best dev score that the
    baseline ever has, seed by seed; words as a share of those of the whole run, seconds
    as the same share of the updates. (Of the runs that share a layer cache only the
    first computes the layers of a text.)"""
    what = "updates (of the words, seconds)"
    rows: list[Sequence[str]] = [(what, "baseline's best", "ELMo has that score")]
    for task in tasks:
        pairs = []
        by_seed = {run["seed"]: run for run in found[task, "elmo"]}
        for run in found[task, "baseline"]:
            if run["seed"] in by_seed:
                other = by_seed[run["seed"]]
                best = max(run["history"], key=lambda row: row["score"])
                reached = [
                    row for row in other["history"] if row["score"] >= best["score"]
                ]
                there = _when(other, reached[0]) if reached else "never"
                pairs.append((_when(run, best), there))
        if pairs:
            rows.append((task, *(", ".join(column) for column in zip(*pairs))))
    return rows


def _when(run: dict[str, Any], row: dict[str, Any]) -> str:
    step, last = int(row["step"]), max(1, int(run["history"][-1]["step"]))
    words = words_read(step) / words_read(last)
    return f"{step:,} ({words:.0%}, {run['seconds'] * step / last:,.0f})"


def shares_table(found: Found, tasks: Sequence[str]) -> list[Sequence[str]]:
    """Scores with so many per cent of the training sentences, the first ones."""
    rows: list[Sequence[str]] = [("", *(f"{share} %" for share in SHARES))]
    for task in tasks:
        for name in ("baseline", "elmo"):
            cells = [cell(scores(found[task, _of_share(name, n)])) for n in SHARES]
            if any(cells[:-1]):
                rows.append((f"{task}, {name}", *cells))
    return rows


def _of_share(setup: str, share: int) -> str:
    return setup if share == 100 else f"{setup} {share}%"


def draw_shares(found: Found, tasks: Sequence[str], output: Path) -> bool:
    """Test score against the share of the training data. RETURNS: whether there is
    anything to draw."""
    shown = [t for t in tasks if found[t, "elmo 10%"] or found[t, "baseline 10%"]]
    if not shown:
        return False
    figure = new_figure(3.4 * len(shown), 3.2, output)
    for axes, task in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown):
        for name in ("baseline", "elmo"):
            points = [
                (share, statistics.mean(values))
                for share in SHARES
                if (values := scores(found[task, _of_share(name, share)]))
            ]
            axes.plot(*zip(*points), marker="o", label=name)
        axes.set(title=task, xlabel="% of the training sentences", xscale="log")
        axes.set_xticks(SHARES, [str(share) for share in SHARES])
        axes.grid(alpha=0.3)
    axes.set_ylabel("")
    axes.legend()
    save(figure, output)
    return True


def draw_learning(found: Found, tasks: Sequence[str], output: Path) -> bool:
    """Dev score after so many updates, means over seeds. RETURNS: as `draw_shares`."""
    shown = [t for t in tasks if found[t, "baseline"] and found[t, "elmo"]]
    if not shown:
        return False
    figure = new_figure(2.6 * len(shown), 2.8, output)
    for axes, task in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown):
        curves = {}
        for name in ("baseline", "elmo"):
            histories = [run["history"] for run in found[task, name]]
            curves[name] = [
                (rows[0]["step"], 100 * statistics.mean(row["score"] for row in rows))
                for rows in zip(*histories)
            ]
            axes.plot(*zip(*curves[name]), label=name)
        axes.set(title=task, xlabel="updates")
        # The first updates are far below what there is to see.
        _, score = curves["baseline"][len(curves["baseline"]) // 4]
        axes.set_ylim(bottom=score)
        axes.grid(alpha=0.3)
    axes.legend()
    save(figure, output)
    return True


def draw_mixes(found: Found, output: Path, runs: Path) -> bool:
    mixes = []
    for task in TASKS:
        for metrics in found[task, "elmo"][:1]:
            folder = Run(task, "elmo", metrics["seed"]).folder(runs) / "model-best"
            if folder.exists():
                mixes += [
                    type(mix)(task, mix.place, mix.kind, mix.gamma, mix.shares)
                    for mix in learned_mixes(spacy.load(folder))
                ]
    if mixes:
        draw(mixes, output)
    return bool(mixes)


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def intrinsic(folder: Path) -> str:
    """What `word_senses` and `probe` have found, layer by layer."""
    rows: list[Sequence[str]] = []
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        layers = [f"{100 * score:.2f}" for score in found["layers"]]
        if not rows:
            rows.append(("", "without", *map(str, range(len(layers)))))
        without = found.get("first_sense", found.get("without"))
        rows.append((path.stem.replace("_", " "), f"{100 * without:.2f}", *layers))
    return as_markdown(rows) if rows else ""


def section(runs: Path, output: Path) -> str:
    """The runs of a folder: tables, and pictures beside the report. Nothing if there
    are none."""
    found = read(runs)
    tasks = [task for task in TASKS if any(key[0] == task for key in list(found))]
    if not tasks:
        msg.warn(f"No runs in '{runs}'")
        return ""

    def picture(title: str) -> Path:
        return output / f"{runs.name}_{title}.png"

    text = [f"## {runs.name}\n", budget(found), as_markdown(main_table(found, tasks))]
    for title, setups in SECTIONS.items():
        rows = setups_table(found, tasks, setups)
        if len(rows) > 2:
            text += [f"### {title}\n", as_markdown(rows)]
    reaching = reaching_table(found, tasks)
    if len(reaching) > 1:
        text += ["### Until the baseline's best\n", as_markdown(reaching)]
        text.append(
            "(Layers are kept: only the first run over a text computes them.)\n"
        )
    if draw_learning(found, tasks, path := picture("learning")):
        text.append(f"![Dev scores by updates]({path.name})\n")
    if draw_shares(found, tasks, path := picture("shares")):
        text += ["### With less data\n", as_markdown(shares_table(found, tasks))]
        text.append(f"![Scores by share of the data]({path.name})\n")
    if draw_mixes(found, path := picture("mixes"), runs):
        text.append("### What the mixes learn\n")
        text.append(f"![Shares of the layers]({path.name})\n")
    return "\n".join(text)


def main(
    runs: list[Path] = typer.Argument(..., help="Folders of runs, of a budget each"),
    output: Path = typer.Argument(..., help="Folder for the report"),
    found_by_layer: Path = typer.Option(
        Path("metrics/layers"), help="Folder with what was found layer by layer"
    ),
    neighbours: Path = typer.Option(
        Path("metrics/neighbours.md"), help="Tables of nearest contexts"
    ),
) -> None:
    output.mkdir(parents=True, exist_ok=True)
    text = ["# Experiments\n", *(f"- {setup}: {WHAT[setup]}" for setup in MAIN), ""]
    sections = [section(folder, output) for folder in runs]
    if not any(sections):
        msg.fail("Nothing to report: experiments make runs", exits=1)
    text += sections
    if by_layer := intrinsic(found_by_layer):
        text += ["## Layer by layer\n", by_layer]
    if neighbours.exists():
        text += ["## Nearest contexts\n", neighbours.read_text(encoding="utf-8")]
    report = "\n".join(text)
    write_files(output, {"report.md": lambda path: write_text(report, path)})
    msg.good(f"Wrote {output / 'report.md'}")
    print(report)


if __name__ == "__main__":
    typer.run(main)
