"""spacy elmo info: what a model folder holds."""

import json
from pathlib import Path

import typer
from wasabi import msg

from .group import app, clear_errors, model_folder


@app.command("info")
def info_cli(
    model: Path = typer.Argument(
        ...,
        callback=model_folder,
        help="Model folder, or a file in it, in any format, or a name that ships",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
    as_config: bool = typer.Option(
        False, "--config", help="Print the section of a pipeline's configuration"
    ),
) -> None:
    """Sizes, fingerprint and card of a biLM."""
    from confection import Config

    from ..bilm import files
    from ..pretrain.card import read_card

    with clear_errors():
        if as_config:
            sizes = files.read_config(model).to_dict()
            section = {"@architectures": "spacy-elmo.BiLM.v1", **sizes}
            nested = {"components": {"elmo": {"factory": "elmo", "model": section}}}
            typer.echo(Config(nested).to_str())
            return
        stored = files.load(model)
        found = {
            **stored.config.to_dict(),
            "vector width": stored.config.width,
            "parameters": stored.n_parameters,
            "vocabulary": len(stored.vocab) if stored.vocab else None,
            "format": files.find_format(model).name,
            "fingerprint": stored.fingerprint,
        }
        card = read_card(files.folder_of(model))
        if as_json:
            typer.echo(json.dumps({**found, "card": card}, ensure_ascii=False))
            return
        msg.table({name: str(value) for name, value in found.items()})
        if card:
            keys = ("text", "tokens_seen", "dev_perplexity", "hardware", "command")
            msg.divider("Card")
            msg.table(
                {key: json.dumps(card.get(key), ensure_ascii=False) for key in keys}
            )
