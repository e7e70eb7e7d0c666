"""`nlp.pipe` from texts to annotated Docs: what it takes beside the biLM.

The pipeline is one that people use: a sentencizer, elmo, and a tagger and an ner that
listen to it (random weights; what they find takes as long to find as what is true).
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import spacy
import torch
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from torch import nn

from spacy_elmo.bilm.bilm import BiLM

from .inference import CPU, Sentences, Tell, make_bilm
from .timing import in_turn, machine

LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1"}
TAGS = [f"T{i}" for i in range(45)]  # as many as the Penn Treebank has
ENTITIES = [f"E{i}" for i in range(4)]


def make_pipeline(bilm: BiLM, *, listeners: int = 2, **settings: Any) -> Language:
    """sentencizer, elmo, and taggers and ners in turn, as many as there are listeners.

    settings: of `spacy-elmo.BiLM.v1`.
    """
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    add_elmo(nlp, bilm, **settings)
    model: dict[str, Any]
    for number in range(listeners):
        if number % 2 == 0:
            model = {"@architectures": "spacy.Tagger.v2", "tok2vec": LISTENER}
            nlp.add_pipe("tagger", name=f"tagger{number}", config={"model": model})
        else:
            model = {
                "@architectures": "spacy.TransitionBasedParser.v2",
                "state_type": "ner",
                "extra_state_tokens": False,
                "hidden_width": 64,
                "maxout_pieces": 2,
                "use_upper": True,
                "tok2vec": LISTENER,
            }
            nlp.add_pipe("ner", name=f"ner{number}", config={"model": model})
    nlp.initialize(lambda: [_example(nlp)])
    return nlp


def add_elmo(nlp: Language, bilm: BiLM, **settings: Any) -> None:
    model: dict[str, Any] = {
        "@architectures": "spacy-elmo.BiLM.v1", **bilm.config.to_dict(), **settings
    }  # fmt: skip
    elmo: Any = nlp.add_pipe("elmo", config={"model": model})
    elmo.model.layers[0].shims[0].set_weights(bilm, "benchmark")


def _example(nlp: Language) -> Example:
    """With every label."""
    words = [f"w{i}" for i in range(len(TAGS))]
    entities = [f"U-{ENTITIES[i % len(ENTITIES)]}" for i in range(len(TAGS))]
    return Example.from_dict(
        Doc(nlp.vocab, words=words),
        {"words": words, "tags": TAGS, "entities": entities},
    )


def texts_of(sentences: Sentences, n_words: int) -> list[str]:
    """Texts of n_words each, whole but for the last; one a sentence if 0."""
    if n_words == 0:
        return [" ".join(sentence) for sentence in sentences]
    words = [word for sentence in sentences for word in sentence]
    return [
        " ".join(words[start : start + n_words])
        for start in range(0, len(words), n_words)
    ]


@contextmanager
def time_in(modules: Sequence[nn.Module]) -> Iterator[list[float]]:
    """Seconds in modules of one thread, one a call."""
    spent: list[float] = []
    started: list[float] = []

    def before(*_: Any) -> None:
        started.append(time.perf_counter())

    def after(*_: Any) -> None:
        spent.append(time.perf_counter() - started.pop())

    hooks = [m.register_forward_pre_hook(before) for m in modules]
    hooks += [m.register_forward_hook(after) for m in modules]
    try:
        yield spent
    finally:
        for hook in hooks:
            hook.remove()


class Piping:
    """Runs of `nlp.pipe` over texts, with a cold cache, and where their time went."""

    def __init__(self, nlp: Language, texts: list[str]) -> None:
        self.nlp = nlp
        self.texts = texts
        elmo: Any = nlp.get_pipe("elmo")
        self.bilm: BiLM = elmo.bilm
        self.shares_outside: list[float] = []

    def run(self) -> float:
        """RETURNS: words, as the tokeniser has made them."""
        bilm = self.bilm
        computes = [bilm.token_encoder, bilm.forward_lstm, bilm.backward_lstm]
        bilm.token_cache.clear()
        started = time.perf_counter()
        with time_in(computes) as inside:
            words = sum(len(doc) for doc in self.nlp.pipe(self.texts))
        whole = time.perf_counter() - started
        self.shares_outside.append(1 - sum(inside) / whole)
        return float(words)


def benchmark(
    sizes: Sequence[str],
    sentences: Sentences,
    *,
    doc_words: Sequence[int],
    rounds: int = 3,
    precision: str = "float32",
    tell: Tell = lambda text: None,
) -> dict[str, Any]:
    """RETURNS: for every size and length of Docs (0: a sentence) words/s, and the share
    of time outside the biLM's own computation: tokeniser, sentencizer, character ids,
    copies, mixes, tagger and ner. On one thread."""
    found = []
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for size in sizes:
            nlp = make_pipeline(make_bilm(size), precision=precision)
            for n_words in doc_words:
                piping = Piping(nlp, texts_of(sentences, n_words))
                tell(f"{size}: {len(piping.texts)} Docs")
                speed = in_turn({"pipe": piping.run}, rounds, CPU)["pipe"]
                found.append(
                    {
                        "size": size,
                        "doc_words": n_words,
                        "docs": len(piping.texts),
                        "words_per_second": speed,
                        "share_outside": statistics.median(piping.shares_outside),
                    }
                )
        return {"machine": machine(CPU), "rounds": rounds, "pipes": found}
    finally:
        torch.set_num_threads(before)
