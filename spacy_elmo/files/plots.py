"""Plots with matplotlib, which is needed only to draw."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Errors
from .atomic import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")


def new_figure(width: float, height: float, output: Path) -> "Figure":
    """Return an empty figure, whose size is in inches, for a file. Raises ImportError
    [EL075] without matplotlib, ValueError [EL074] if the file's format is not known."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Errors.EL075(error=error) from error
    if output.suffix not in FORMATS and str(output) != "-":
        problem = f"the file's name must end in {', '.join(FORMATS)}"
        raise Errors.EL074(path=output, problem=problem)
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: "Figure", output: Path) -> None:
    """Write a figure to a file, or as SVG to standard output where `output` is "-".
    Raises OSError [EL013]."""
    if str(output) == "-":
        figure.savefig(sys.stdout.buffer, format="svg")
        return
    write = partial(figure.savefig, format=output.suffix[1:], dpi=150)
    write_file(output, write)
