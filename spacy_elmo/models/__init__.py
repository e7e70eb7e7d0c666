"""The biLMs in this package: one for each language, all with the same sizes."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..bilm import BiLM, BiLMConfig, weights
from ..errors import Errors
from .model_card import (
    ancestors,
    name_and_version,
    read_card,
    render,
    started_from,
    tokens_read,
)

__all__ = [
    "FOLDER", "LANG", "MODELS", "ancestors", "find", "folder", "load",
    "name_and_version", "read_card", "render", "sizes", "started_from", "tokens_read",
]  # fmt: skip

FOLDER = Path(__file__).parent
# The model of each language. The component has the sizes of the first.
MODELS = {"en": "en_elmo_sm", "ko": "ko_elmo_sm"}
LANG = next(iter(MODELS))


def sizes() -> dict[str, Any]:
    """Return the sizes of the shipped models, or the defaults of `BiLMConfig` if their
    file is missing or damaged. spaCy calls this whenever it starts, so the error is
    left to `load`."""
    try:
        text = (FOLDER / MODELS[LANG] / "config.json").read_text(encoding="utf-8")
        return BiLMConfig.from_dict(json.loads(text)["bilm"]).to_dict()
    except (OSError, ValueError, KeyError, TypeError):
        return BiLMConfig().to_dict()


def find(name_or_path: str | Path) -> Path:
    """Return an existing path, or else the folder of the shipped model with this name.

    Raises:
        FileNotFoundError: [EL001] There is neither.
        ValueError: [EL002] The system can't look for the path.
    """
    path = Path(name_or_path)
    try:
        is_there = path.exists()
    except (OSError, ValueError) as error:  # too long, no permission, a null character
        raise Errors.EL002(path=path, format="a biLM", error=error) from error
    if is_there:
        return path
    if str(name_or_path) not in MODELS.values():
        raise weights.not_found(path, list(MODELS.values()))
    return FOLDER / str(name_or_path)


def locate(name_or_path: str | Path, working_folder: Path = Path()) -> Path:
    """Return the absolute path for a name or a path relative to a working folder. If
    there is nothing at the path, and a shipped model has this name, return its folder.
    The path need not exist."""
    path = (working_folder / name_or_path).absolute()
    with suppress(OSError):  # too long, no permission: what reads it says so
        if str(name_or_path) in MODELS.values() and not path.exists():
            return FOLDER / str(name_or_path)
    return path


def folder(lang: str) -> Path:
    """Return the folder of the model for a language. Raises ValueError [EL081] if there
    is no model for it, FileNotFoundError [EL051] if the package was built without
    it."""
    if lang not in MODELS:
        known = ", ".join(f"'{name}' for '{lang}'" for lang, name in MODELS.items())
        raise Errors.EL081(lang=lang, known=known)
    path = FOLDER / MODELS[lang]
    if not path.exists():
        raise Errors.EL051(path=path)
    return path


def load(lang: str) -> BiLM:
    """Return the model for a language. Raises as `folder`, and ValueError if one of its
    files is damaged."""
    return BiLM.load(folder(lang))
