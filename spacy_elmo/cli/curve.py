"""spacy elmo curve: the learning curves of runs, drawn."""

from pathlib import Path

import typer
from wasabi import msg

from .group import app, clear_errors


@app.command("curve")
def curve_cli(
    runs: list[Path] = typer.Argument(..., help="Output folders of 'pretrain'"),
    output: Path = typer.Option(
        Path("curve.png"), "--output", "-o", help="File to write (.png, .svg, .pdf)"
    ),
) -> None:
    """Loss and dev perplexity against tokens read, of one run or several."""
    from ..pretrain.curve import draw

    with clear_errors():
        draw(runs, output)
        msg.good(f"Wrote {output}")
