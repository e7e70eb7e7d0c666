"""The card of a model, which says where it comes from: `card.json` in its folder, and
Markdown for hubs of models."""

from pathlib import Path
from typing import Any

from ..bilm.weights import CARD, folder_of, read_own_json, unpacked
from ..errors import Errors
from ..files import MAX_JSON, decode, named_path, reading
from .packages import installed

PAGE = "README.md"
_OF_EVERY_RUN = ("model-best", "model-last")  # folders, whose names say nothing


def read_card(path: str | Path) -> dict[str, Any] | None:
    """Return the card of a model, or None. Raises ValueError [EL002, EL003] if it can't
    be read. path: model folder, or a file in it."""
    with unpacked(path) as place:
        file = folder_of(place) / CARD
        if not file.exists():
            return None
        card = read_own_json(file)
        if problem := _problem(card):
            raise Errors.EL003(path=file, problem=problem)
        return card


def _problem(card: Any) -> str | None:
    """Return what is wrong in a card, or in its entries about the models before, of
    what this package computes with; anyone may have written the rest."""
    while card is not None:
        if not isinstance(card, dict):
            return "it is no card"
        if type(card.get("tokens_seen") or 0) is not int:  # null: nobody knows
            return f"its tokens_seen is {card['tokens_seen']!r}"
        card = card.get("started_from")
    return None


def name_and_version(name_or_path: str | Path) -> dict[str, Any]:
    """Return how the meta of a pipeline and cards of other models name a model.

    Returns:
        "weights": The name of an installed model, or of a model folder.
        "version": The version in its card, or None.
        "started_from": Both of the model that its training started from; only if it has
            no version itself.
    """
    path = named_path(name_or_path)
    card = _card_of(path)
    name = "/".join(path.parts[-2:]) if path.name in _OF_EVERY_RUN else path.name
    found = {"weights": name, "version": card.get("version")}
    before = card.get("started_from")
    if before and found["version"] is None:  # a version says more
        found["started_from"] = {key: before.get(key) for key in found}
    return found


def started_from(name_or_path: str | Path) -> dict[str, Any]:
    """Return the entry "started_from" for the card of a model whose training starts
    from this one: its name and version, and from its card the fingerprint, the text,
    the tokens and the entry "started_from". Raises ValueError as `read_card`."""
    card = _card_of(named_path(name_or_path))
    kept = ("fingerprint", "text", "tokens_seen", "started_from")
    found = {key: card[key] for key in kept if key in card}
    return name_and_version(name_or_path) | found


def _card_of(path: Path) -> dict[str, Any]:
    """Return the card of a model folder or of an installed model, or {}."""
    if not path.exists():
        model = installed().get(path.name)
        path = path if model is None else model.folder
    return (read_card(path) if path.exists() else None) or {}


def read_page(folder: Path) -> str | None:
    """Return the Markdown of a shipped model's card, without its front matter, or None.
    `experiments ship` writes it. Raises ValueError [EL002] if it can't be read."""
    path = folder / PAGE
    if not path.exists():
        return None
    with reading(path, Errors.EL002, max_bytes=MAX_JSON, format="Markdown"):
        text = decode(path.read_bytes())
    has_front = text.startswith("---\n")
    return text.partition("\n---\n\n")[2] if has_front else text


def tokens_read(card: dict[str, Any]) -> int:
    """Return the number of tokens that a model and the models before it have read.
    Tokens that were read twice count twice."""
    return sum(each.get("tokens_seen") or 0 for each in (card, *ancestors(card)))


def ancestors(card: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of a card about the models that training has started from, the
    last model first."""
    found = []
    while "text" in (card := card.get("started_from") or {}):
        found.append(card)
    return found
