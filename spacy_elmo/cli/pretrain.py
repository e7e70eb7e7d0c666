"""spacy elmo pretrain: train a biLM from text."""

from pathlib import Path

import typer

from .group import app, clear_errors


@app.command(
    "pretrain",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def pretrain_cli(
    ctx: typer.Context,
    config: Path = typer.Argument(..., help="Configuration (.cfg)"),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for the models"),
    overwrite: bool = typer.Option(
        False,
        help="Start from scratch, replacing another run",
    ),
) -> None:
    """Train a biLM, both directions jointly, or resume a run that was stopped.

    Writes model-best and model-last below the output folder, log.jsonl, and a
    checkpoint: the same command resumes from it. Settings of the configuration can be
    replaced: --training.epochs 2 --text.train '["a.txt"]'. Where there is no spaCy, and
    for several processes: [torchrun --nproc-per-node 2] -m spacy_elmo.pretrain, with
    the same arguments.
    """
    from ..pretrain.__main__ import run

    with clear_errors():
        run(config, output, overwrite=overwrite, overrides=ctx.args, module="spacy")
