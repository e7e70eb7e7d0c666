"""The biLMs inside this package, one a language, all of one shape."""

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
# By the language of the pipeline; the first is that of `Elmo` itself.
MODELS = {"en": "en_elmo_sm", "ko": "ko_elmo_sm"}
LANG = next(iter(MODELS))


def sizes() -> dict[str, Any]:
    """Return the sizes of the shipped models; those of `BiLMConfig` if there are none
    or the file is damaged: spaCy asks whenever it starts, and `load` says what is
    wrong."""
    try:
        text = (FOLDER / MODELS[LANG] / "config.json").read_text(encoding="utf-8")
        return BiLMConfig.from_dict(json.loads(text)["bilm"]).to_dict()
    except (OSError, ValueError, KeyError, TypeError):
        return BiLMConfig().to_dict()


def find(name_or_path: str | Path) -> Path:
    """Return a path, or the folder of a shipped model if there is nothing at the path
    and the model has that name. Raises FileNotFoundError [EL001], or ValueError [EL002]
    if the system can't say."""
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
    """Return the absolute path of what a name or path means now, if it is relative to
    a working folder: a shipped model, if nothing is there and the model has that name.
    It need not be there."""
    path = (working_folder / name_or_path).absolute()
    with suppress(OSError):  # too long, no permission: what reads it says so
        if str(name_or_path) in MODELS.values() and not path.exists():
            return FOLDER / str(name_or_path)
    return path


def folder(lang: str) -> Path:
    """Return the folder of the model for a language. Raises ValueError [EL081] if none
    ships for it, FileNotFoundError [EL051] if the package was built without it."""
    if lang not in MODELS:
        known = ", ".join(f"'{name}' for '{lang}'" for lang, name in MODELS.items())
        raise Errors.EL081(lang=lang, known=known)
    path = FOLDER / MODELS[lang]
    if not path.exists():
        raise Errors.EL051(path=path)
    return path


def load(lang: str) -> BiLM:
    """Return the model for a language. Raises as `folder`, and ValueError if a file of
    it was damaged since it was installed."""
    return BiLM.load(folder(lang))
