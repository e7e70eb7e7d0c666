"""The biLM inside this package, which `nlp.add_pipe("elmo")` uses by default."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import Errors

if TYPE_CHECKING:
    from .bilm.bilm import BiLM

NAME = "en_elmo_xs"
LANG = "en"
PATH = Path(__file__).parent / "models" / NAME


def sizes() -> dict[str, Any]:
    """Its sizes, settings of `spacy-elmo.BiLM.v1`. Raises FileNotFoundError [EL051]."""
    path = PATH / "config.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))["bilm"]
    except OSError as error:
        raise FileNotFoundError(Errors.EL051.format(path=PATH)) from error


def load() -> "BiLM":
    """Raises FileNotFoundError [EL051] if the package was built without it, ValueError
    [EL012] if it was changed since."""
    from .bilm.bilm import BiLM

    if not PATH.exists():
        raise FileNotFoundError(Errors.EL051.format(path=PATH))
    return BiLM.load(PATH)
