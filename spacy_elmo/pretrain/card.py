"""The model card: where a model comes from, as `card.json` beside it."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from ..bilm.weights import CARD
from ..files import write_files, write_text


def write_card(folder: Path, card: dict[str, Any]) -> None:
    """Raises OSError [EL013]."""
    text = json.dumps(card, indent=2, ensure_ascii=False)
    write_files(folder, {CARD: partial(write_text, text)})


def read_card(folder: Path) -> dict[str, Any] | None:
    path = folder / CARD
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
