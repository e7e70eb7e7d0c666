"""spacy elmo pretrain: train a biLM from text."""

import shlex
import sys
from pathlib import Path

import typer

from . import app, clear_errors


@app.command(
    "pretrain",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def pretrain_cli(
    ctx: typer.Context,
    config: Path = typer.Argument(..., help="Configuration (.cfg)"),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for the models"),
) -> None:
    """Train a biLM: text -> tokens -> vocabulary -> streams, both directions jointly.

    Writes model-best and model-last below the output folder, and log.jsonl. Settings
    of the configuration can be replaced: --training.epochs 2 --text.train '["a.txt"]'
    """
    from spacy.cli._util import parse_config_overrides

    from ..pretrain.config import read_config
    from ..pretrain.loop import pretrain

    with clear_errors():
        overrides = parse_config_overrides(ctx.args)
        command = f"python -m spacy {shlex.join(sys.argv[1:])}"
        best = pretrain(read_config(config, overrides), output, command=command)
        typer.echo(f"The best model is in {best}")
