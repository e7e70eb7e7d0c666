"""Epochs of a tagger: encoded anew, from the layer cache, on static vectors."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import spacy
import torch
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch
from spacy.vectors import Vectors

from spacy_elmo.bilm.bilm import BiLM

from .inference import CPU, Sentences, Tell, make_bilm, n_tokens_of
from .pipe import TAGS, add_elmo
from .timing import in_turn, machine

BATCH, STATIC_WIDTH = 64, 300


def make_tagger(bilm: BiLM | None, sentences: Sentences, cache: Any) -> Language:
    """A tagger on a frozen biLM, or, without one, on random static vectors."""
    nlp = spacy.blank("en")
    tok2vec: dict[str, Any] = {"@architectures": "spacy-elmo.ElmoListener.v1"}
    if bilm is None:
        words = sorted({word for sentence in sentences for word in sentence})
        data = np.random.default_rng(0).normal(size=(len(words), STATIC_WIDTH))
        nlp.vocab.vectors = Vectors(data=data.astype("float32"), keys=words)
        tok2vec = {"@architectures": "spacy-elmo.StaticVectors.v1", "width": 128}
    else:
        add_elmo(nlp, bilm)
    model = {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}
    nlp.add_pipe("tagger", config={"model": model})
    nlp.initialize(lambda: _examples(nlp, sentences))
    if bilm is not None:
        elmo: Any = nlp.get_pipe("elmo")
        elmo.use_layer_cache(cache, 1 << 14)
    return nlp


def _examples(nlp: Language, sentences: Sentences) -> list[Example]:
    return [
        Example.from_dict(
            Doc(nlp.vocab, words=sentence),
            {"tags": [TAGS[len(word) % len(TAGS)] for word in sentence]},
        )
        for sentence in sentences
    ]


def benchmark(
    sizes: Sequence[str],
    sentences: Sentences,
    *,
    rounds: int = 3,
    tell: Tell = lambda text: None,
) -> dict[str, Any]:
    """RETURNS: for every size words/s of an epoch after the first, on one thread."""
    found = {}
    n_tokens = float(n_tokens_of(sentences))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for size in sizes:
            bilm = make_bilm(size)
            with tempfile.TemporaryDirectory() as folder:
                caches = {
                    "encoded anew": (bilm, None),
                    "memory": (bilm, "memory"),
                    "file": (bilm, Path(folder) / "layers"),
                    "static vectors": (None, None),
                }
                runs = {}
                for name, (reads, cache) in caches.items():
                    nlp = make_tagger(reads, sentences, cache)
                    runs[name] = lambda nlp=nlp: _epoch(nlp, sentences, n_tokens)
                tell(size)
                found[size] = in_turn(runs, rounds, CPU)
        return {"machine": machine(CPU), "rounds": rounds, "sizes": found}
    finally:
        torch.set_num_threads(before)


def _epoch(nlp: Language, sentences: Sentences, n_tokens: float) -> float:
    for batch in minibatch(_examples(nlp, sentences), BATCH):
        nlp.update(batch, annotates=[])
    return n_tokens
