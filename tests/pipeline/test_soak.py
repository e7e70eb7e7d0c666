"""Pipelines that read and learn for a while: same results, no more memory."""

import gc
import random

import numpy as np
import psutil
import pytest
from spacy.training import Example

from ..pipelines import pipeline, trained

pytestmark = pytest.mark.slow

WORDS = [f"word{i}" for i in range(3_000)] + ["고양이", "naïve", "x" * 60]
MAX_GROWTH = 48 << 20


def texts(n, seed):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 30))) for _ in range(n)]


def memory():
    gc.collect()
    return psutil.Process().memory_info().rss


def test_reading_five_thousand_docs_takes_no_more_memory():
    nlp = trained()
    first = texts(50, seed=0)
    expected = [(doc.tensor, [t.tag_ for t in doc]) for doc in nlp.pipe(first)]
    before = None
    for n in range(20):
        for doc in nlp.pipe(texts(250, seed=n)):
            assert np.isfinite(doc.tensor).all()
        if n == 4:
            before = memory()
    assert memory() - before < MAX_GROWTH
    for doc, (tensor, tags) in zip(nlp.pipe(first), expected):
        assert abs(doc.tensor - tensor).max() < 1e-5
        assert [t.tag_ for t in doc] == tags


@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "fine-tuned"])
def test_two_hundred_updates_take_no_more_memory(frozen):
    nlp = pipeline(frozen=frozen)

    def batch(seed):
        docs = [nlp.make_doc(text) for text in texts(6, seed)]
        tags = [["A" if len(t.text) > 6 else "B" for t in doc] for doc in docs]
        return [
            Example.from_dict(doc, {"tags": some, "entities": ["O"] * len(doc)})
            for doc, some in zip(docs, tags)
        ]

    optimizer = nlp.initialize(lambda: batch(0))
    losses, before = [], None
    for n in range(200):
        losses.append(nlp.update(batch(n), sgd=optimizer)["tagger"])
        if n == 80:
            before = memory()
    assert memory() - before < MAX_GROWTH
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) / 2
