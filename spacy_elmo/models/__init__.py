"""The biLMs inside this package, one a language, all of one shape."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..bilm.config import BiLMConfig
from ..errors import Errors

if TYPE_CHECKING:
    from ..bilm.bilm import BiLM

FOLDER = Path(__file__).parent
# By the language of the pipeline; the first is that of `Elmo` itself.
MODELS = {"en": "en_elmo_sm", "ko": "ko_elmo_sm"}
LANG = next(iter(MODELS))


def sizes() -> dict[str, Any]:
    """Their sizes, settings of `spacy-elmo.BiLM.v1`. Those of `BiLMConfig` if the
    package was built without them or the file is damaged: spaCy asks whenever it
    starts, and must work for who has no `elmo` then; `load` says what is wrong."""
    path = FOLDER / MODELS[LANG] / "config.json"
    try:
        sizes = json.loads(path.read_text(encoding="utf-8"))["bilm"]
        return BiLMConfig.from_dict(sizes).to_dict()
    except (OSError, ValueError, KeyError, TypeError):
        return BiLMConfig().to_dict()


def find(name_or_path: str | Path) -> Path:
    """A folder, or that of a shipped model by its name if there is no such folder."""
    path = Path(name_or_path)
    if str(name_or_path) in MODELS.values() and not path.exists():
        return FOLDER / str(name_or_path)
    return path


def folder(lang: str) -> Path:
    """Where the model for a language is.

    Raises ValueError [EL081] if none ships for it, FileNotFoundError [EL051] if the
    package was built without it."""
    if lang not in MODELS:
        known = ", ".join(f"'{name}' for '{lang}'" for lang, name in MODELS.items())
        raise ValueError(Errors.EL081.format(lang=lang, known=known))
    path = FOLDER / MODELS[lang]
    if not path.exists():
        raise FileNotFoundError(Errors.EL051.format(path=path))
    return path


def load(lang: str) -> "BiLM":
    """The model for a language. Raises as `folder`, and ValueError [EL010, EL012] if a
    file of it was damaged since."""
    from ..bilm.bilm import BiLM

    return BiLM.load(folder(lang))
