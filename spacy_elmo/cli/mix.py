"""spacy elmo mix: which layers the components of a pipeline have learned to use."""

import json
from dataclasses import asdict
from pathlib import Path

import typer
from wasabi import msg

from .group import app, clear_errors


@app.command("mix")
def mix_cli(
    pipeline: str = typer.Argument(..., help="Trained pipeline: folder or package"),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Plot to write (.png, .svg, .pdf)"
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    """Softmax weights and gamma of every listener, as a table and a plot."""
    import spacy

    from ..component.mixes import draw, learned_mixes

    with clear_errors():
        mixes = learned_mixes(spacy.load(pipeline))
        if output is not None:
            draw(mixes, output)
    if as_json:
        typer.echo(json.dumps([asdict(mix) for mix in mixes]))
        return
    n_layers = max(len(mix.shares) for mix in mixes)
    header = ("component", "listener", "mix", "gamma", *map(str, range(n_layers)))
    rows = [
        (
            mix.component,
            str(mix.place),
            str(mix.kind),
            f"{mix.gamma:.3f}",
            *(f"{share:.3f}" for share in mix.shares),
        )
        for mix in mixes
    ]
    msg.table(rows, header=header, divider=True)
    if output is not None:
        msg.good(f"Wrote {output}")
