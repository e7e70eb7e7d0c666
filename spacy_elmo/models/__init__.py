"""The biLMs that are installed: those inside this package, one a language and all of
one shape, and those of other packages."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..bilm import BiLM, BiLMConfig, weights
from ..errors import Errors
from ..files import coded
from . import packages
from .model_card import (
    ancestors,
    name_and_version,
    read_card,
    render,
    started_from,
    tokens_read,
)
from .packages import (
    FOLDER,
    LANG,
    MODELS,
    PACKAGES,
    Installed,
    default_model,
    installed,
)

__all__ = [
    "FOLDER", "LANG", "MODELS", "PACKAGES", "Installed", "ancestors", "find", "folder",
    "installed", "load", "name_and_version", "read_card", "render", "sizes",
    "started_from", "tokens_read",
]  # fmt: skip


def sizes() -> dict[str, Any]:
    """Return the sizes of the shipped models; those of `BiLMConfig` if there are none
    or the file is damaged: spaCy asks whenever it starts, and `load` says what is
    wrong."""
    try:
        text = (packages.FOLDER / MODELS[LANG] / "config.json").read_text(
            encoding="utf-8"
        )
        return BiLMConfig.from_dict(json.loads(text)["bilm"]).to_dict()
    except (OSError, ValueError, KeyError, TypeError):
        return BiLMConfig().to_dict()


def find(name_or_path: str | Path) -> Path:
    """Return a path, or the folder of an installed model if there is nothing at the
    path and the model has that name.

    Raises:
        FileNotFoundError: [EL001] Neither is there. [EL190] A package is damaged.
        ValueError: [EL002] The system can't say whether the path is there.
    """
    path = Path(name_or_path)
    with coded(Errors.EL002, path, format="a biLM"):  # too long, no permission
        is_there = path.exists()
    if is_there:
        return path
    models = installed()
    if str(name_or_path) not in models:
        raise weights.not_found(path, list(models))
    return models[str(name_or_path)].folder


def locate(name_or_path: str | Path, working_folder: Path = Path()) -> Path:
    """Return the absolute path of what a name or path means now, if it is relative to
    a working folder: an installed model, if nothing is there and the model has that
    name. It need not be there. Raises FileNotFoundError [EL190] if a package is
    damaged."""
    path = (working_folder / name_or_path).absolute()
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
    model = default_model(lang)
    if model is None and lang in PACKAGES:
        raise ValueError(Errors.EL191.format(lang=lang, package=PACKAGES[lang]))
    if model is None:
        found = installed().values()
        known = ", ".join(f"'{model.name}' for '{model.lang}'" for model in found)
        raise ValueError(Errors.EL081.format(lang=lang, known=known))
    path = model.folder
    if not path.exists():
        raise FileNotFoundError(Errors.EL051.format(path=path))
    return path


def load(lang: str) -> BiLM:
    """Return the model for a language. Raises as `folder`, and ValueError if a file of
    it was damaged since it was installed."""
    return BiLM.load(folder(lang))
