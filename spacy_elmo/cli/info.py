"""spacy elmo info: what a model folder holds."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from wasabi import msg

from .group import app, clear_errors, model_folder

if TYPE_CHECKING:
    from ..bilm.config import BiLMConfig


# Name -> sentences at once, and whether a gradient is asked for.
CASES = {"1 sentence": (1, False), "64 sentences": (64, False), "training": (64, True)}


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
    kernels: bool = typer.Option(
        False, "--kernels", help="Print what computes it on this machine"
    ),
) -> None:
    """Sizes, fingerprint and card of a biLM, or the kernels that compute it here."""
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
        if kernels:
            msg.table(_kernels(files.read_config(model)), header=["", *CASES])
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


def _kernels(config: "BiLMConfig") -> list[list[str]]:
    """Return a row for each part of a model: its kernel in each of CASES."""
    import torch

    from ..bilm.kernels.choose import KERNELS, choose_all
    from ..bilm.kernels.processor import Case, processor_of

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    case, n_threads = Case(processor_of(device)), torch.get_num_threads()
    chosen = [
        choose_all(case._replace(gradient=gradient), config, rows, n_threads)
        for rows, gradient in CASES.values()
    ]
    return [[part, *(each[part] for each in chosen)] for part in KERNELS]
