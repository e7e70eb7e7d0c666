"""The registered factory `elmo`, and its settings."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from spacy.language import Language

from .. import models as shipped
from ..bilm.files import read_config
from ..layers.encoder import Encoder
from ..layers.settings import takes_fields_of
from .pipe import Elmo
from .settings import ElmoSettings

DEFAULT_CONFIG = {
    "model": {"@architectures": "spacy-elmo.BiLM.v1", **shipped.sizes()},
    **asdict(ElmoSettings()),
}


@Language.factory(
    "elmo", assigns=["doc.tensor", "doc._.elmo"], default_config=DEFAULT_CONFIG
)
@takes_fields_of(ElmoSettings)
def make_elmo(nlp: Language, name: str, model: Encoder, **settings: Any) -> Elmo:
    """Return an ELMo component.

    Args:
        nlp: The pipeline.
        name: Of the component.
        model: `spacy-elmo.BiLM.v1`.
        settings: As in `ElmoSettings`.
    """
    return Elmo(nlp.vocab, model, name, lang=nlp.lang or "", **settings)


def component_config(path: str | Path) -> dict[str, Any]:
    """Return the configuration of an `elmo` component that fits the weights in a model
    folder, for `nlp.add_pipe("elmo", config=...)`.

    Args:
        path: The folder, or the name of a shipped model.

    Raises:
        ValueError, FileNotFoundError: As `files.read_config`.
    """
    sizes = read_config(shipped.find(path)).to_dict()
    return {"model": {"@architectures": "spacy-elmo.BiLM.v1", **sizes}}
