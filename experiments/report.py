"""Report all runs that there are: tables in Markdown and, if wanted, plots.

python -m experiments.report NAME ... --output FOLDER
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer
from wasabi import msg

from spacy_elmo.cli.group import markdown_table
from spacy_elmo.files import write_files

from .figures import draw_learning, draw_mixes, draw_shares, draw_speeds
from .scores import SHARES, Found, Speed, by_share, read, read_speeds, scores
from .table import find_setup, find_task, read_table

Rows = list[Sequence[str]]

# What the others are measured against comes first.
MAIN = ("baseline", "spacy pretrain", "elmo", "fine-tuned", "adapted and fine-tuned")
TITLES = {"baseline": "without ELMo", "elmo": "with ELMo"}


def cell(values: Sequence[float]) -> str:
    """Return mean and standard deviation over seeds, in per cent."""
    if not values:
        return ""
    mean = f"{100 * statistics.mean(values):.2f}"
    if len(values) == 1:
        return f"{mean} (1 seed)"
    return f"{mean} ± {100 * statistics.stdev(values):.2f}"


def errors_saved(baseline: Sequence[float], other: Sequence[float]) -> str:
    """Return the share of the baseline's errors that the other does not make, and
    whether the difference says anything."""
    if not baseline or not other:
        return ""
    before, after = (1 - statistics.mean(values) for values in (baseline, other))
    saved = f"{(before - after) / before:+.1%}" if before else ""
    several = [values for values in (baseline, other) if len(values) > 1]
    if abs(before - after) <= max(map(statistics.stdev, several), default=-1):
        saved += " (no more than seeds differ)"
    return saved


def main_table(found: Found, tasks: Sequence[str]) -> Rows:
    """Return the baseline, and what each of the others that were run has and saves; no
    rows where none of them was run."""
    tasks = [task for task in tasks if any(found[task, s] for s in MAIN)]
    if not tasks:
        return []
    first, *others = [s for s in MAIN if any(found[task, s] for task in tasks)]
    header = ["", TITLES.get(first, first)]
    for setup in others:
        header += [TITLES.get(setup, setup), "error reduction"]
    rows: Rows = [header]
    for task in tasks:
        baseline = scores(found[task, first])
        row = [f"{task}, {find_task(task).score}", cell(baseline)]
        for setup in others:
            other = scores(found[task, setup])
            row += [cell(other), errors_saved(baseline, other)]
        rows.append(row)
    return rows


def setups_table(
    found: Found,
    tasks: Sequence[str],
    setups: Sequence[str],
    speeds: Mapping[str, Speed] = {},
) -> Rows:
    """Return the scores of setups, a row each, with the minutes that a run took on
    average, of the first task that it was made for, and, if they were measured, speed
    and size; no rows where there are none but those of the main table."""
    rows: Rows = [("", *tasks, "minutes", *(["words/s", "MB"] if speeds else []))]
    if not any(found[task, s] for task in tasks for s in setups if s not in MAIN):
        return rows
    for setup in setups:
        runs = next((found[task, setup] for task in tasks if found[task, setup]), None)
        if runs is None:
            continue
        cells = [cell(scores(found[task, setup])) for task in tasks]
        cells.append(f"{statistics.mean(run['seconds'] for run in runs) / 60:.1f}")
        if speeds:
            speed = speeds.get(setup)
            cells += (
                [f"{speed.words:,.0f}", f"{speed.megabytes:.1f}"] if speed else [""] * 2
            )
        rows.append((find_setup(setup).what or setup, *cells))
    return rows


def reaching_table(found: Found, tasks: Sequence[str]) -> Rows:
    """Return the updates until ELMo's side has the best dev score that the baseline
    ever has, seed by seed."""
    rows: Rows = [("updates", "baseline's best", "ELMo has that score")]
    for task in tasks:
        by_seed = {run["seed"]: run for run in found[task, "elmo"]}
        pairs = []
        for run in found[task, "baseline"]:
            if run["seed"] in by_seed:
                best = max(run["history"], key=lambda row: row["score"])
                history = by_seed[run["seed"]]["history"]
                there = [r["step"] for r in history if r["score"] >= best["score"]]
                pairs.append((f"{best['step']:,}", f"{min(there):,}" if there else "-"))
        if pairs:
            rows.append((task, *(", ".join(column) for column in zip(*pairs))))
    return rows


def shares_table(found: Found, tasks: Sequence[str]) -> Rows:
    """Return scores with so many per cent of the training sentences, the first ones."""
    rows: Rows = [("", *(f"{share} %" for share in SHARES))]
    for task in tasks:
        for name in ("baseline", "elmo"):
            cells = [cell(values) for values in by_share(found, task, name).values()]
            if any(cells[:-1]):
                rows.append((f"{task}, {name}", *cells))
    return rows


def layers_table(folder: Path) -> Rows:
    """Return what `word_senses` and `probe` have found, layer by layer. Other files are
    left out."""
    rows: Rows = []
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        if "layers" not in found:
            continue
        layers = [f"{100 * score:.2f}" for score in found["layers"]]
        if not rows:
            rows.append(("", "without", *map(str, range(len(layers)))))
        without = found.get("first_sense", found.get("without"))
        rows.append((path.stem.replace("_", " "), f"{100 * without:.2f}", *layers))
    return rows


def section(runs: Path, plots: Path | None, *, dev: bool = False) -> str:
    """Return the tables of an experiment, and links to plots that it draws into a
    folder; nothing if there are no runs."""
    found = read(runs, dev=dev)
    tasks = [task for task in read_table()["tasks"] if any(task == t for t, _ in found)]
    if not tasks:
        msg.warn(f"No runs in '{runs}'")
        return ""
    steps = {run["history"][-1]["step"] for some in found.values() for run in some}
    updates = " or ".join(f"{n:,}" for n in sorted(steps))
    sets = "dev sets" if dev else "test sets"
    text = [f"## {runs.name}\n\n{updates} updates a run; {sets}.\n"]
    if rows := main_table(found, tasks):
        text.append(markdown_table(rows))
    speeds = read_speeds(runs)
    tables = {
        **{
            title: setups_table(found, tasks, setups, speeds)
            for title, setups in read_table()["tables"].items()
        },
        "Until the baseline's best": reaching_table(found, tasks),
        "With less data": shares_table(found, tasks),
    }
    for title, rows in tables.items():
        if len(rows) > 1:
            text.append(f"### {title}\n\n{markdown_table(rows)}")
    drawings = (draw_learning, draw_shares, draw_mixes, draw_speeds)
    for draw in drawings if plots else ():
        path = plots / f"{runs.name}_{draw.__name__.removeprefix('draw_')}.png"
        if draw(found, tasks, runs, path):
            text.append(f"![{draw.__doc__.splitlines()[0]}]({path.name})\n")
    return "\n".join(text)


def main(
    names: list[str] = typer.Argument(..., help="Experiments of experiments.yml"),
    output: Path = typer.Option(Path("metrics"), help="Folder for report.md"),
    training: Path = typer.Option(Path("training"), help="Folder with the runs"),
    layers: Path | None = typer.Option(
        None, help="Folder with what 'probe' and 'word_senses' have found"
    ),
    contexts: Path | None = typer.Option(None, help="Tables of nearest contexts"),
    plots: bool = typer.Option(False, help="Draw (needs matplotlib)"),
    dev: bool = typer.Option(False, help="The best scores of the dev sets instead"),
) -> None:
    """Print tables of all runs that there are, and write them with plots."""
    output.mkdir(parents=True, exist_ok=True)
    try:
        drawn = output if plots else None
        found = [section(training / name, drawn, dev=dev) for name in names]
    except ValueError as error:
        msg.fail(str(error), exits=1)
    if not any(found):
        msg.fail("There is nothing to report: experiments.train makes runs", exits=1)
    text = ["# Experiments\n", *filter(None, found)]
    if layers is not None and (rows := layers_table(layers)):
        text.append(f"## Layer by layer\n\n{markdown_table(rows)}")
    if contexts is not None and contexts.exists():
        text.append(f"## Nearest contexts\n\n{contexts.read_text(encoding='utf-8')}")
    report = "\n".join(text)
    write_files(output, {"report.md": report})
    print(report)
    msg.good(f"Wrote {output / 'report.md'}")


if __name__ == "__main__":
    typer.run(main)
