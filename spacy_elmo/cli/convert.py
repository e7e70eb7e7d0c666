"""spacy elmo convert: from one model format to another."""

from pathlib import Path
from typing import Any

import typer
from wasabi import msg

from .group import app, clear_errors, model_folder


@app.command("convert")
def convert_cli(
    source: Path = typer.Argument(
        ...,
        callback=model_folder,
        help="Model folder, or a file in it, in any format, or a name that ships",
    ),
    target: Path = typer.Argument(..., help="Folder to write"),
    to: str | None = typer.Option(
        None,
        help="Format to write; that of this package by default. An unknown name lists "
        "the formats that there are",
    ),
    half: bool = typer.Option(False, help="Half-precision weights"),
) -> None:
    """Read a biLM and write it in another format, with the same vectors."""
    from ..bilm import files, objectives
    from ..pretrain.card import read_card

    with clear_errors():
        writer = files.writable_format(to or files.OWN)
        stored, folder = files.load(source), files.folder_of(source)
        path, card = folder / objectives.FILE, read_card(folder)
        training: dict[str, Any] = {}
        if writer.keeps_training:
            n_words = len(stored.vocab or [])
            width = stored.config.projection_dim
            if path.exists():
                training["objective"] = objectives.load(path, width, n_words)
            training["card"] = card
        elif path.exists() or card:
            msg.info(f"The format {writer.name} has no place for softmax and card")
        dtype = "float16" if half else "float32"
        files.save(stored, target, format=writer.name, dtype=dtype, **training)
        msg.good(f"Wrote {target} ({stored.n_parameters:,} parameters, {writer.name})")
