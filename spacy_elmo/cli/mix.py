"""spacy elmo mix: which layers the components of a pipeline have learned to use."""

from dataclasses import asdict
from pathlib import Path

import typer

from ..output import msg, write_json
from .group import AsJson, app, clear_errors


@app.command("mix")
@clear_errors()
def mix_cli(
    pipeline: str = typer.Argument(..., help="Trained pipeline: folder or package"),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Plot to write (.png, .svg, .pdf), '-' for stdout"
    ),
    as_json: AsJson = False,
) -> None:
    """Softmax weights and gamma of every listener, as a table and a plot."""
    import spacy

    from ..pipeline import draw_mixes, learned_mixes

    mixes = learned_mixes(spacy.load(pipeline))
    if output is not None:
        draw_mixes(mixes, output)
        if str(output) == "-":
            return
    if as_json:
        write_json([asdict(mix) for mix in mixes])
        return
    n_layers = max(len(mix.shares) for mix in mixes)
    rows = []
    for mix in mixes:
        numbers = [f"{number:.3f}" for number in (mix.gamma, *mix.shares)]
        numbers += [""] * (n_layers - len(mix.shares))  # of a biLM with fewer
        rows.append((mix.component, str(mix.place), str(mix.kind), *numbers))
    header = ("component", "listener", "mix", "gamma", *map(str, range(n_layers)))
    msg.table(rows, header=header, divider=True)
    if output is not None:
        msg.good(f"Wrote {output}")
