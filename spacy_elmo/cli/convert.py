"""spacy elmo convert: from one model format to another."""

from enum import Enum
from pathlib import Path

import typer
from wasabi import msg

from .group import app, clear_errors, model_folder


class Format(str, Enum):
    spacy_elmo = "spacy-elmo"
    bilm_tf = "bilm-tf"


@app.command("convert")
def convert_cli(
    source: Path = typer.Argument(
        ...,
        callback=model_folder,
        help="Model folder, in any format, or a name that ships",
    ),
    target: Path = typer.Argument(..., help="Folder to write"),
    to: Format = typer.Option(Format.spacy_elmo, help="Format to write"),
    half: bool = typer.Option(False, help="Half-precision weights"),
) -> None:
    """Read a biLM and write it in another format, with the same vectors.

    The format bilm-tf has no place for the softmax and the model card."""
    from ..bilm import objectives
    from ..bilm.bilm import BiLM
    from ..pretrain.card import read_card

    if half and to is Format.bilm_tf:
        raise typer.BadParameter("the format bilm-tf has no half-precision weights")
    with clear_errors():
        bilm, card = BiLM.load(source), read_card(source)
        if to is Format.bilm_tf:
            bilm.save_bilm_tf(target)
        else:
            path = source / objectives.FILE
            words = len(bilm.vocab or [])
            width = bilm.config.projection_dim
            bilm.save(
                target,
                dtype="float16" if half else "float32",
                softmax=objectives.load(path, width, words) if path.exists() else None,
                card=card,
            )
        msg.good(f"Wrote {target} ({bilm.n_parameters:,} parameters, {to.value})")
