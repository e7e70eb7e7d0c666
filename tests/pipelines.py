"""Real pipelines with a small biLM, and examples to train them on."""

from typing import Any

import spacy
import torch
from spacy.language import Language
from spacy.training import Example

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.pipeline import Elmo, ElmoListener

from .models import tiny_config

LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1"}
TAGGER = {"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": LISTENER}}
NER = {
    "model": {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": "ner",
        "extra_state_tokens": False,
        "hidden_width": 16,
        "maxout_pieces": 2,
        "use_upper": True,
        "tok2vec": LISTENER,
    }
}
TEXTS = [
    ("I like London", ["P", "V", "N"], ["O", "O", "U-LOC"]),
    ("She hates Paris now", ["P", "V", "N", "A"], ["O", "O", "U-LOC", "O"]),
    ("We saw Kim", ["P", "V", "N"], ["O", "O", "U-PER"]),
]


def sizes(config: BiLMConfig) -> dict[str, Any]:
    return {"@architectures": "spacy-elmo.BiLM.v1", **config.to_dict()}


def add_elmo(
    nlp: Language, *, seed: int = 1, name: str = "elmo", **settings: Any
) -> Elmo:
    """An elmo component with a tiny random biLM."""
    config = settings.pop("sizes", tiny_config())
    model = {**sizes(config), **settings.pop("model", {})}
    elmo = nlp.add_pipe("elmo", name=name, config={"model": model, **settings})
    with_weights(elmo, BiLM.random(config, seed=seed))
    return elmo


def with_weights(elmo: Elmo, bilm: BiLM) -> None:
    elmo.model.layers[0].shims[0].set_weights(bilm, "test")


def pipeline(*, frozen: bool = True, seed: int = 1, **settings: Any) -> Language:
    """elmo -> tagger, ner; not initialised."""
    nlp = spacy.blank("xx")
    add_elmo(nlp, seed=seed, frozen=frozen, **settings)
    nlp.add_pipe("tagger", config=TAGGER)
    nlp.add_pipe("ner", config=NER)
    return nlp


def examples(nlp: Language) -> list[Example]:
    return [
        Example.from_dict(nlp.make_doc(text), {"tags": tags, "entities": entities})
        for text, tags, entities in TEXTS
    ]


def trained(steps: int = 5, **settings: Any) -> Language:
    nlp = pipeline(**settings)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    for _ in range(steps):
        nlp.update(batch, sgd=optimizer)
    return nlp


def annotations(nlp: Language, text: str = "I like Paris now") -> list[tuple[str, str]]:
    return [(token.tag_, token.ent_type_) for token in nlp(text)]


def listeners(nlp: Language) -> list[ElmoListener]:
    return nlp.get_pipe("elmo").listeners


def mix_of(listener: ElmoListener) -> tuple[Any, Any]:
    return listener.get_param("W").copy(), listener.get_param("gamma").copy()


def parameters(nlp: Language) -> list[torch.Tensor]:
    return [p.detach().clone() for p in nlp.get_pipe("elmo").bilm.parameters()]


def moved(before: list[torch.Tensor], nlp: Language) -> bool:
    return any(not torch.equal(a, b) for a, b in zip(before, parameters(nlp)))
