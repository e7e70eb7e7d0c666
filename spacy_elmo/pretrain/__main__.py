"""[torchrun --nproc-per-node 2 -m] spacy_elmo.pretrain CONFIG --output FOLDER: the
trainer where there is no spaCy, and for several processes."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from ..errors import Warnings
from ..output import clear_errors, msg, show_all
from .config import parse_overrides, read_config
from .loop import Stopped, pretrain
from .memory import keep_freed_memory
from .results import verdict


def run(
    config: Path,
    output: Path,
    *,
    overwrite: bool,
    overrides: Sequence[str],
    module: str = "spacy_elmo.pretrain",
) -> None:
    """Train, and print where the model is; exit with 128 + the signal if stopped.

    `overrides` are arguments such as --training.epochs 2, `module` is the name of the
    module that was started, for the model card.
    """
    command = shlex.join(["python", "-m", module, *sys.argv[1:]])
    first = os.environ.get("RANK", "0") == "0"
    keep_freed_memory()
    try:
        settings = read_config(config, parse_overrides(overrides))
        best = pretrain(settings, output, command=command, overwrite=overwrite)
    except Stopped as stopped:
        if first:
            msg.warn(str(stopped))
        sys.exit(128 + stopped.signal_number)
    if first:
        msg.good(verdict(best))


@clear_errors()
def main(
    ctx: typer.Context,
    config: Path = typer.Argument(..., help="Configuration (.cfg)"),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for the models"),
    force: bool = typer.Option(
        False, "--force", "-F", help="Start from scratch where there is another run"
    ),
    overwrite: bool = typer.Option(False, "--overwrite", hidden=True),  # in 0.2
) -> None:
    """Train a biLM on prepared text, or resume a run that was stopped."""
    show_all()
    if overwrite:
        typer.echo(Warnings.ELW70(old="--overwrite", new="--force"), err=True)
    run(config, output, overwrite=force or overwrite, overrides=ctx.args)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_show_locals=False)
    app.command(
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
    )(main)
    app()
