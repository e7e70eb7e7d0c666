"""The installed biLMs: those in this package, one for each language and all with the
same sizes, and those of other packages."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..bilm import BiLM, BiLMConfig, weights
from ..errors import Errors
from ..files import named_path
from . import packages
from .model_card import (
    ancestors,
    name_and_version,
    read_card,
    read_page,
    started_from,
    tokens_read,
)
from .packages import (
    FOLDER,
    LANG,
    MODELS,
    PACKAGES,
    Installed,
    installed,
)

__all__ = [
    "FOLDER", "LANG", "MODELS", "PACKAGES", "Installed", "ancestors", "find", "folder",
    "installed", "load", "name_and_version", "read_card", "read_page", "sizes",
    "started_from", "tokens_read",
]  # fmt: skip


def sizes() -> dict[str, Any]:
    """Return the sizes of the shipped models, or the defaults of `BiLMConfig` if their
    file is missing or damaged. spaCy calls this whenever it starts, so the error is
    left to `load`."""
    try:
        text = (packages.FOLDER / MODELS[LANG] / "config.json").read_text(
            encoding="utf-8"
        )
        return BiLMConfig.from_dict(json.loads(text)["bilm"]).to_dict()
    except (OSError, ValueError, KeyError, TypeError):
        return BiLMConfig().to_dict()


def find(name_or_path: str | Path) -> Path:
    """Return an existing path, or else the folder of the installed model with this
    name.

    Raises:
        FileNotFoundError: [EL001] There is neither. [EL190] Its package is damaged.
        ValueError: [EL002] The system can't look for the path.
    """
    path = named_path(name_or_path)
    try:
        is_there = path.exists()
    except (OSError, ValueError) as error:  # too long, no permission, a null character
        raise Errors.EL002(path=path, format="a biLM", error=error) from error
    if is_there:
        return path
    models = installed()
    if str(name_or_path) not in models:
        raise weights.not_found(path, list(models))
    return models[str(name_or_path)].folder


def locate(name_or_path: str | Path, working_folder: Path = Path()) -> Path:
    """Return the absolute path for a name or a path relative to a working folder. If
    there is nothing at the path, and an installed model has this name, return its
    folder. The path need not exist. Raises FileNotFoundError [EL190] if the package of
    the model is damaged."""
    path = (working_folder / named_path(name_or_path)).absolute()
    with suppress(OSError):  # too long, no permission: what reads it says so
        if path.exists():
            return path
    model = installed().get(str(name_or_path))
    return path if model is None else model.folder


def folder(lang: str) -> Path:
    """Return the folder of the model for a language.

    Raises:
        ValueError: [EL081] There is none. [EL191] There is one, in a package that is
            not installed.
        FileNotFoundError: [EL051] This package was built without it. [EL190] Its own
            package is damaged.
    """
    found = installed().values()  # the one that ships is before others
    model = next((model for model in found if model.lang == lang), None)
    if model is None and lang in PACKAGES:
        raise Errors.EL191(lang=lang, package=PACKAGES[lang])
    if model is None:
        known = ", ".join(f"'{model.name}' for '{model.lang}'" for model in found)
        raise Errors.EL081(lang=lang, known=known)
    if not model.folder.exists():
        raise Errors.EL051(path=model.folder)
    return model.folder


def load(lang: str) -> BiLM:
    """Return the model for a language. Raises as `folder`, and ValueError if one of its
    files is damaged."""
    return BiLM.load(folder(lang))
