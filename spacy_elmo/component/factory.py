"""The registered factory `elmo`, and its settings."""

from pathlib import Path
from typing import Any

from spacy.language import Language

from .. import models as shipped
from ..bilm.files import read_config
from ..layers.encoder import Encoder
from .pipe import Elmo

# How many Docs spaCy hands to a component at once, all of whose vectors are in memory
# then: a thousand Docs of a thousand words would take 4 GB of them.
SPACY_BATCH_DOCS, BATCH_DOCS = 1000, 128

DEFAULT_CONFIG = {
    "model": {"@architectures": "spacy-elmo.BiLM.v1", **shipped.sizes()},
    "frozen": True,
    "mix_weights": None,
    "gamma": 1.0,
    "set_tensor": True,
    "max_layers_mb": 1024,
    "learn_rate": 1e-4,
    "unfreeze_every": 200,
    "similarity_hooks": False,
}


@Language.factory(
    "elmo", assigns=["doc.tensor", "doc._.elmo"], default_config=DEFAULT_CONFIG
)
def make_elmo(
    nlp: Language,
    name: str,
    model: Encoder,
    frozen: bool,
    mix_weights: list[float] | None,
    gamma: float,
    set_tensor: bool,
    max_layers_mb: int,
    learn_rate: float | None,
    unfreeze_every: int,
    similarity_hooks: bool,
) -> Elmo:
    """An ELMo component.

    model: `spacy-elmo.BiLM.v1`.
    frozen: don't train the biLM; it is still initialised and loaded, and listeners
        still train their mixes. False fine-tunes it through the listeners.
    mix_weights: softmax weights of the layers in `doc.tensor` (L+1 of them), equal if
        null. gamma: its scale.
    set_tensor: whether to set `doc.tensor`, which components that listen to a
        stock `tok2vec` read, too.
    max_layers_mb: layers waiting for listeners held at most; beyond it they are
        computed anew.
    learn_rate: of the biLM, by an Adam of its own, if it is not frozen; null for the
        optimizer of the other components.
    unfreeze_every: updates after which one more layer of it learns, the top one first;
        0 for all from the start. With the rate, it keeps a biLM from forgetting what it
        was trained on.
    similarity_hooks: whether `similarity` of tokens, spans and Docs is that of their
        vectors in context (not of Docs that come back from other processes, which
        leave hooks behind).

    Lowers `nlp.batch_size` to BATCH_DOCS where it is spaCy's default.
    """
    if nlp.batch_size == SPACY_BATCH_DOCS:
        nlp.batch_size = BATCH_DOCS
    return Elmo(
        nlp.vocab,
        model,
        name,
        lang=nlp.lang or "",
        frozen=frozen,
        mix_weights=mix_weights,
        gamma=gamma,
        set_tensor=set_tensor,
        max_layers_mb=max_layers_mb,
        learn_rate=learn_rate,
        unfreeze_every=unfreeze_every,
        similarity_hooks=similarity_hooks,
    )


def component_config(path: str | Path) -> dict[str, Any]:
    """Configuration of an `elmo` component that fits the weights in a model folder (or
    those of a shipped model, by name), for `nlp.add_pipe("elmo", config=...)`. Raises
    as `files.read_config`."""
    sizes = read_config(shipped.find(path)).to_dict()
    return {"model": {"@architectures": "spacy-elmo.BiLM.v1", **sizes}}
