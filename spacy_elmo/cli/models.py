"""spacy elmo models: what ships, and how it was made."""

import json
from typing import Any

import typer
from wasabi import msg

from .group import app, clear_errors

MARKS = ("forward", "backward", "bits_per_character")


@app.command("models")
def models_cli(
    name: str | None = typer.Argument(None, help="Show this one's whole card"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    """The biLMs inside this package: what they are for and how they were made."""
    from .. import models as shipped
    from ..pretrain.card import read_card

    with clear_errors():
        cards: dict[str, Any] = {}
        for lang, model in shipped.MODELS.items():
            if name in (None, model, lang):
                card = read_card(shipped.folder(lang)) or {}
                cards[model] = {"lang": lang, **card}
        if not cards:
            shipped.folder(str(name))  # says what there is
    if as_json:
        typer.echo(json.dumps(cards, ensure_ascii=False, indent=2))
        return
    if name is None:
        rows = [_row(model, card) for model, card in cards.items()]
        header = ("name", "lang", "parameters", "tokens seen", *_measured())
        msg.table(rows, header=header, divider=True)
        return
    for model, card in cards.items():
        msg.divider(model)
        msg.table({key: _readable(key, value) for key, value in card.items()})


def _measured() -> list[str]:
    readable = [mark.replace("_", " ") for mark in MARKS]
    return [f"{text}, {mark}" for text in ("dev", "test") for mark in readable]


def _row(model: str, card: dict[str, Any]) -> tuple[str, ...]:
    found = [
        f"{card.get(f'{text}_perplexity', {}).get(mark, float('nan')):.2f}"
        for text in ("dev", "test")
        for mark in MARKS
    ]
    numbers = (f"{card.get(key, 0):,}" for key in ("parameters", "tokens_seen"))
    return model, card["lang"], *numbers, *found


def _readable(key: str, value: Any) -> str:
    from ..pretrain.units import duration

    if key == "seconds":
        return f"{value:,.0f} ({duration(value)})"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
