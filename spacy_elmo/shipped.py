"""The biLM inside this package, which `nlp.add_pipe("elmo")` uses by default."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .bilm.config import BiLMConfig
from .errors import Errors

if TYPE_CHECKING:
    from .bilm.bilm import BiLM

NAME = "en_elmo_xs"
LANG = "en"
PATH = Path(__file__).parent / "models" / NAME


def sizes() -> dict[str, Any]:
    """Its sizes, settings of `spacy-elmo.BiLM.v1`. The defaults of `BiLMConfig` if the
    package was built without it: spaCy must work then, and `load` says what is missing.
    """
    path = PATH / "config.json"
    try:
        sizes = json.loads(path.read_text(encoding="utf-8"))["bilm"]
    except FileNotFoundError:
        return BiLMConfig().to_dict()
    return BiLMConfig.from_dict(sizes).to_dict()


def load() -> "BiLM":
    """Raises FileNotFoundError [EL051] if the package was built without it, ValueError
    [EL012] if it was changed since."""
    from .bilm.bilm import BiLM

    if not PATH.exists():
        raise FileNotFoundError(Errors.EL051.format(path=PATH))
    return BiLM.load(PATH)
