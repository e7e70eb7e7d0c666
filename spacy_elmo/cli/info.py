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
        help="Model folder, in any format, or a name that ships",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
    as_config: bool = typer.Option(
        False, "--config", help="Print the section of a pipeline's configuration"
    ),
) -> None:
    """Sizes, fingerprint and card of a biLM."""
    from confection import Config

    from ..bilm.bilm import BiLM
    from ..bilm.files.own import fingerprint
    from ..pretrain.card import read_card

    with clear_errors():
        bilm = BiLM.load(model)
        sizes = {
            **bilm.config.to_dict(),
            "vector width": bilm.config.width,
            "parameters": bilm.n_parameters,
            "vocabulary": len(bilm.vocab) if bilm.vocab else None,
            "fingerprint": fingerprint(bilm),
        }
        if as_config:
            section = {"@architectures": "spacy-elmo.BiLM.v1", **bilm.config.to_dict()}
            nested = {"components": {"elmo": {"factory": "elmo", "model": section}}}
            typer.echo(Config(nested).to_str())
            return
        card = read_card(model)
        if as_json:
            typer.echo(json.dumps({**sizes, "card": card}, ensure_ascii=False))
            return
        msg.table({name: str(value) for name, value in sizes.items()})
        if card:
            keys = ("text", "tokens_seen", "dev_perplexity", "hardware", "command")
            msg.divider("Card")
            msg.table(
                {key: json.dumps(card.get(key), ensure_ascii=False) for key in keys}
            )
