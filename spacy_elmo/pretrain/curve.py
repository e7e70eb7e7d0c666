"""Learning curves."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import Errors
from ..files import new_figure, save_figure
from .loggers import FILE, read_log

FEW = 20  # rows of a log that are shown as points too


def draw(runs: Sequence[Path], output: Path) -> None:
    """Plot training loss and dev perplexity of runs against tokens, into a file whose
    ending says the format.

    Raises:
        ValueError: [EL074] A run has no log, or the format is not known.
        ImportError: [EL075] matplotlib is not installed.
        OSError: [EL013] The file can't be written.
    """
    figure = new_figure(9, 3.6, output)
    from matplotlib.ticker import EngFormatter  # it is there, or new_figure says so

    loss_axes, dev_axes = figure.subplots(1, 2)
    for number, run in enumerate(runs):
        rows = [(row["tokens"], row) for row in read_log(run / FILE)]
        if not rows:
            problem = f"there is no '{FILE}' of a run in it"
            raise ValueError(Errors.EL074.format(path=run, problem=problem))
        style: dict[str, Any] = {"color": f"C{number}", "label": run.name}
        dev = [(tokens, row["dev"]["mean"]) for tokens, row in rows if "dev" in row]
        few = {"marker": "."} if len(rows) < FEW else {}  # one point is no line
        losses = [row["loss"] for _, row in rows]
        loss_axes.plot([n for n, _ in rows], losses, **few, **style)
        dev_axes.plot([n for n, _ in dev], [p for _, p in dev], marker=".", **style)
    loss_axes.set(xlabel="tokens", ylabel="training loss (nats per word)")
    dev_axes.set(xlabel="tokens", ylabel="dev perplexity", yscale="log")
    for axes in (loss_axes, dev_axes):
        axes.grid(alpha=0.3)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 120, 50k, 2M
    dev_axes.legend()
    save_figure(figure, output)
