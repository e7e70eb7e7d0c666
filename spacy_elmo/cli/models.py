"""spacy elmo models, info, convert: what is installed, what a model is, formats."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import Errors
from ..output import msg, write, write_json
from . import options
from .group import app

if TYPE_CHECKING:
    from ..bilm import BiLMConfig

TEXTS, MARKS = ("dev", "test"), ("forward", "backward", "bits_per_character")
IN_SHORT = ("version", "text", "tokens_seen", "dev_perplexity", "hardware", "command")
# What is computed -> number of sentences at once, and whether with a gradient.
CASES = {"1 sentence": (1, False), "64 sentences": (64, False), "training": (64, True)}


@app.command("models")
def models_cli(
    name: str | None = typer.Argument(None, help="Show this one's card"),
    as_json: options.AsJson = False,
) -> None:
    """Show the installed biLMs, in this package and in packages of their own: what they
    are for, and how they were made."""
    from ..models import folder, installed, read_card, read_page

    models = installed()
    cards: dict[str, Any] = {}
    for model in models.values():
        if name in (None, model.name, model.lang):
            found = {"lang": model.lang, "package": model.package}
            cards[model.name] = found | (read_card(model.folder) or {})
    if not cards:
        folder(str(name))  # says what there is
    if as_json:
        write_json(cards, indent=2)
        return
    if name is None:
        marks = [f"{t}, {m.replace('_', ' ')}" for t in TEXTS for m in MARKS]
        about = ("name", "lang", "package", "version", "parameters", "tokens seen")
        header = (*about, *marks)
        rows = [_row(model_name, card) for model_name, card in cards.items()]
        msg.table(rows, header=header, divider=True)
        return
    for model_name, card in cards.items():
        if page := read_page(models[model_name].folder):
            write(page + "\n")
        else:
            write_json(card, indent=2)


def _row(model: str, card: dict[str, Any]) -> tuple[str, ...]:
    from ..models import tokens_read

    numbers = f"{card.get('parameters', 0):,}", f"{tokens_read(card):,}"
    perplexities = [card.get(f"{text}_perplexity", {}) for text in TEXTS]
    marks = (f"{p.get(m, float('nan')):.2f}" for p in perplexities for m in MARKS)
    about = model, card["lang"], card["package"], card.get("version", "")
    return *about, *numbers, *marks


@app.command("info")
def info_cli(
    model: options.Model,
    as_json: options.AsJson = False,
    as_config: bool = typer.Option(
        False, "--config", help="Print the component's section of a configuration"
    ),
    kernels: bool = typer.Option(
        False, "--kernels", help="Print the kernels that compute it on this machine"
    ),
) -> None:
    """Show sizes, fingerprint and card of a biLM, or the kernels that compute it."""
    from confection import Config

    from ..bilm import weights
    from ..models import read_card, tokens_read
    from ..pipeline import component_config

    if as_config:
        component = {"factory": "elmo", **component_config(model)}
        nested = {"components": {"elmo": component}}
        write(Config(nested).to_str() + "\n")
        return
    if kernels:
        from ..bilm.kernels import describe_library

        msg.table(_kernels(weights.read_config(model)), header=["", *CASES])
        instructions, reason = describe_library()
        msg.info(f"Instructions of the C library: {instructions}, {reason}")
        return
    stored = weights.load(model)
    found = {
        **stored.config.to_dict(),
        "vector width": stored.config.width,
        "parameters": stored.n_parameters,
        "vocabulary": len(stored.vocab) if stored.vocab else None,
        "unicode form": stored.form,
        "format": weights.find_format(model).name,
        "fingerprint": stored.fingerprint,
    }
    if stored.mix is not None:
        found |= {"trained mix": list(stored.mix.weights), "gamma": stored.mix.gamma}
    card = read_card(model)
    if as_json:
        write_json({**found, "card": card})
        return
    msg.table({name: str(value) for name, value in found.items()})
    if card:
        msg.divider("Card")
        card["tokens_seen"] = tokens_read(card)  # by those that it started from, too
        short = {key: json.dumps(card.get(key), ensure_ascii=False) for key in IN_SHORT}
        msg.table(short)


def _kernels(config: "BiLMConfig") -> list[list[str]]:
    """Return a row for each part of a model: its kernel in each of CASES."""
    import torch

    from ..bilm.kernels import choices, dispatch_key_of

    device = "cuda" if torch.cuda.is_available() else "cpu"
    key = dispatch_key_of(torch.empty(0, device=device), "float32")
    table: dict[str, list[str]] = {}
    for rows, gradient in CASES.values():
        case = key._replace(gradient=gradient)
        for part, choose in choices(case, config, rows).items():
            try:
                name = choose()
            except Errors.EL150:  # a kernel that is forced can't do this
                name = "can't"
            table.setdefault(part, [part]).append(name)
    return list(table.values())


@app.command("convert")
def convert_cli(
    source: options.Model,
    target: Path = typer.Argument(..., help="Folder to write"),
    format: str | None = typer.Option(
        None,
        help="Format to write; by default this package's own. An unknown name "
        "lists all formats",
    ),
    precision: str = typer.Option(
        "float32", help="Precision of the files: float32 or float16"
    ),
    force: options.Force = False,
) -> None:
    """Read a biLM and write it in another format, with the same vectors."""
    from ..bilm import weights
    from ..files import named_path
    from ..models import read_card

    target = named_path(target)
    is_free = not target.exists() or (target.is_dir() and not any(target.iterdir()))
    if not (force or is_free):
        raise Errors.EL130(path=target)
    writer = weights.writable_format(format or weights.OWN)
    with weights.unpacked(source) as place:
        stored, card = weights.load(place), read_card(place)
        has_objective = weights.has_objective(place)
        training: dict[str, Any] = {}
        if writer.keeps_training:
            training["card"] = card
            if has_objective and stored.vocab is None:
                why = Errors.EL022(path=source, part="softmax")
                again = "Then convert again with --force"
                msg.warn(f"The softmax is left out. {why} {again}")
            elif has_objective:
                words = stored.config, stored.vocab
                training["objective"] = weights.load_objective(place, *words)
        elif has_objective or card:
            msg.info(f"The format {writer.name} has no place for softmax and card")
    weights.save(stored, target, format=writer.name, dtype=precision, **training)
    msg.good(f"Wrote {target} ({stored.n_parameters:,} parameters, {writer.name})")
