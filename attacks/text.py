"""Text that no one would write, through every way in: `encode`, `nlp`, `nlp.pipe` with
one process and two, and each kind of listener.

Right shapes, finite values, and the same bits alone as among others, in float32 and in
half precision.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import spacy
from spacy.tokens import Doc

from benchmarks.speed import precisions
from spacy_elmo import BiLM
from spacy_elmo.models import MODELS, find
from tests.models import tiny_config
from tests.pipelines import LISTENER, add_elmo, examples

from .report import Run

SIZES = tiny_config()
BATCH = 200  # Docs that are read at once
LONG = 100_000  # tokens of one sentence
LARGE = 1 << 20  # characters of one token
MIXES: list[dict[str, Any]] = [
    *({"mix": mix} for mix in ("learned", "average", "top", "concat", 0)),
    {"layer_norm": True},
]


def _of(*ranges: tuple[int, int]) -> Callable[[random.Random], str]:
    """Return a generator of words whose code points are in ranges."""

    def word(rng: random.Random) -> str:
        pairs = rng.choices(ranges, k=rng.randint(1, 12))
        return "".join(chr(rng.randint(*pair)) for pair in pairs)

    return word


# The classes of words, by name.
CLASSES: dict[str, Callable[[random.Random], str]] = {
    "ASCII": _of((33, 126)),
    "control characters": _of((0, 31), (127, 159)),
    "Latin and Greek": _of((0xC0, 0x3FF)),
    "Hangul": _of((0xAC00, 0xD7A3), (0x1100, 0x11FF)),
    "Han": _of((0x4E00, 0x9FFF), (0x20000, 0x2A6DF)),
    "Arabic and Hebrew, with direction marks": _of(
        (0x590, 0x6FF), (0x202A, 0x202E), (0x2066, 0x2069)
    ),
    "Indic": _of((0x900, 0xDFF)),
    "unpaired surrogates": _of((0xD800, 0xDFFF)),
    "emoji and joiners": _of((0x1F300, 0x1FAFF), (0x200D, 0x200D), (0xFE0F, 0xFE0F)),
    "private and unassigned": _of((0xE000, 0xF8FF), (0xFFFF0, 0x10FFFF)),
    "anything": _of((0, 0x10FFFF)),
    "stacks of combining characters": lambda rng: "a" + "\u0301" * rng.randint(1, 300),
    "white space": lambda rng: rng.choice(" \t\n\r\x0b\x1c\u00a0\u2028\u3000") * 2,
    "empty": lambda rng: "",
    "filling all characters": lambda rng: "x" * rng.randint(40, 60),
    "special tokens": lambda rng: rng.choice(["<S>", "</S>", "<UNK>", "<pad>"]),
    "long": lambda rng: rng.choice("a고😀\ud800") * rng.randint(60, 5000),
}


def _sentence(rng: random.Random) -> list[str]:
    names = list(CLASSES)
    kinds = rng.choices(names, k=rng.randint(0, 8))
    if rng.random() < 0.3:
        kinds = kinds[:1] * len(kinds)
    return [CLASSES[kind](rng) for kind in kinds]


def _repeating(rng: random.Random) -> list[str]:
    """Return a sentence in which tokens, or others like them, come again."""
    words = [CLASSES[kind](rng)[:50] for kind in rng.choices(list(CLASSES), k=12)]
    n, way = rng.randint(10, 100), rng.choice(["in turn", "mixed", "longer", "alike"])
    few = words[: rng.randint(1, 12)]
    if way == "in turn":
        return [few[i % len(few)] for i in range(n)]
    if way == "mixed":
        return rng.choices(few, k=n)
    letter = rng.choice("-=.*o1x하")
    if way == "longer":
        return [letter * rng.randint(1, 50) for _ in range(n)]
    return [words[0][:40] + rng.choice("abc019") * rng.randint(1, 2) for _ in range(n)]


def attack(run: Run) -> None:
    """Read batches of Docs in turn in every way, until time or count is used up."""
    reader = Reader(run)
    reader.extremes()
    number = 0
    while run.goes_on(run.counts["Docs"]):
        rng = run.random(number)
        sentences = [_sentence(rng) for _ in range(BATCH)]
        reader.encode(sentences, rng)
        reader.repeat(rng)
        reader.pipe(sentences, rng, n_process=2 if number % 40 == 39 else 1)
        run.counts["Docs"] += BATCH
        number += 1
    run.notes["classes of words"] = len(CLASSES)


class Reader:
    """A biLM, and a pipeline with a listener of each kind."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.bilm = BiLM.random(SIZES, seed=1)
        self.shipped = [BiLM.load(find(name)) for name in MODELS.values()]
        self.half = []
        if "half" in precisions():
            self.half = [BiLM.random(SIZES, seed=1).set_precision("half")]
        self.nlp = spacy.blank("xx")
        add_elmo(self.nlp, sizes=SIZES)
        for number, mix in enumerate(MIXES):
            tok2vec = {**LISTENER, **mix}
            model = {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}
            self.nlp.add_pipe("tagger", name=f"tagger{number}", config={"model": model})
        batch = examples(self.nlp)
        self.nlp.initialize(lambda: batch)

    def encode(self, sentences: list[list[str]], rng: random.Random) -> None:
        """By `encode`: all together, and some of them alone."""
        for bilm in (self.bilm, *self.half):
            together = bilm.encode(sentences)
            for sentence, layers in zip(sentences, together):
                self.check(layers, len(sentence), sentence)
            for n in rng.sample(range(len(sentences)), 3):
                self.compare(bilm, sentences[n], together[n])

    def repeat(self, rng: random.Random) -> None:
        """By the models that ship: a rounding would grow where tokens come again."""
        sentences = [_repeating(rng) for _ in range(4)]
        for bilm in self.shipped:
            for sentence, layers in zip(sentences, bilm.encode(sentences)):
                self.compare(bilm, sentence, layers)

    def compare(self, bilm: BiLM, sentence: list[str], together: np.ndarray) -> None:
        """The same alone."""
        (alone,) = bilm.encode([sentence])
        if not np.array_equal(alone, together):
            off = np.abs(alone - together).max(initial=0)
            self.run.finding(f"{off} between alone and together: {sentence}")
        self.run.counts["compared with alone"] += 1

    def pipe(
        self, sentences: list[list[str]], rng: random.Random, n_process: int
    ) -> None:
        """By `nlp.pipe`, with all listeners, and some Docs by `nlp`."""
        docs = [Doc(self.nlp.vocab, words=_spelled(each)) for each in sentences]
        words = [[token.text for token in doc] for doc in docs]
        read = list(self.nlp.pipe(docs, n_process=n_process, batch_size=64))
        self.run.counts[f"Docs through {n_process} process"] += len(read)
        expected = self.bilm.encode([_no_space(doc) for doc in read])
        for doc, tokens, layers in zip(read, words, expected, strict=True):
            self.check(doc.tensor[None], len(tokens), tokens)
            of_words = doc.tensor[[not token.is_space for token in doc]]
            mixed = layers.mean(0)
            bound = 2e-6 * (1 + np.abs(mixed).max(initial=0))
            if np.abs(of_words - mixed).max(initial=0) > bound:
                self.run.finding(f"other vectors by nlp.pipe: {tokens}")
            if any(not token.tag_ for token in doc):
                self.run.finding(f"a tagger did not read {tokens}")
        doc = self.nlp(Doc(self.nlp.vocab, words=words[rng.randrange(len(words))]))
        self.check(doc.tensor[None], len(doc), [token.text for token in doc])

    def check(self, layers: np.ndarray, n_tokens: int, tokens: list[str]) -> None:
        """One row for each token, finite."""
        if layers.shape[1:] != (n_tokens, SIZES.width) or not np.isfinite(layers).all():
            self.run.finding(f"{layers.shape} for {n_tokens} tokens: {tokens}")

    def extremes(self) -> None:
        """A sentence of many tokens, and tokens of many characters."""
        for sentence in (["a"] * LONG, ["a" * LARGE, "고" * LARGE, "\u0301" * LARGE]):
            (layers,) = self.bilm.encode([sentence])
            self.check(layers, len(sentence), sentence[:3])
            doc = self.nlp(Doc(self.nlp.vocab, words=sentence))
            self.check(doc.tensor[None], len(sentence), sentence[:3])
            self.run.counts["extreme Docs"] += 1


def _spelled(words: list[str]) -> list[str]:
    """Return words as spaCy can hold them: none empty, no unpaired surrogates."""
    spelled = [word.encode("utf-8", "ignore").decode() for word in words]
    return [word for word in spelled if word]


def _no_space(doc: Doc) -> list[str]:
    return [token.text for token in doc if not token.is_space]
