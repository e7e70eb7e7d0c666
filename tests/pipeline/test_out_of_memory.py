"""Docs that do not fit the memory that CuPy takes for itself, made small here."""

import sys
import types

import numpy as np
import pytest
import spacy
import torch
from thinc.api import NumpyOps

from spacy_elmo import BiLM

from ..pipelines import add_elmo

TEXTS = ["I like Paris", "She", "", "We saw London in the rain", "They hate it", "So"]


class OutOfMemoryError(MemoryError):
    """What CuPy raises has this name."""


class SmallXp:
    """NumPy, whose einsum makes arrays of so many rows at most."""

    def __init__(self, rows):
        self.rows = rows

    def __getattr__(self, name):
        return getattr(np, name)

    def einsum(self, *args):
        found = np.einsum(*args)
        if len(found) > self.rows:
            raise OutOfMemoryError
        return found


class SmallOps(NumpyOps):
    def __init__(self, rows):
        super().__init__()
        self.xp = SmallXp(rows)


class Pool:
    """What CuPy takes memory from: its own pool or, with Thinc, one of torch's."""

    def __init__(self):
        self.freed = []

    def malloc(self, n_bytes):
        """CuPy names the method, and only that leads to the pool."""

    def free_all_blocks(self):
        self.freed.append("freed")


@pytest.fixture
def freed(monkeypatch):
    """How often memory was given back that CuPy kept for later."""
    pool = Pool()
    cuda = types.SimpleNamespace(get_allocator=lambda: pool.malloc)
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda))
    return pool.freed


def made(rows):
    nlp = spacy.blank("xx")
    elmo = add_elmo(nlp)
    docs = [nlp.make_doc(text) for text in TEXTS]
    expected = [elmo(doc.copy()).tensor for doc in docs]
    elmo.model.ops = SmallOps(rows)
    return elmo, docs, expected


@pytest.mark.parametrize("rows", [6, 9])
def test_docs_are_read_in_parts(rows, freed):
    elmo, docs, expected = made(rows)
    with pytest.warns(UserWarning, match="ELW06") as warned:
        found = list(elmo.pipe(docs, batch_size=10))
    assert found == docs and len(freed) == len(warned)
    for doc, tensor in zip(found, expected):
        assert doc.tensor == pytest.approx(tensor, abs=1e-6)


def test_a_doc_that_does_not_fit_alone(freed):
    elmo, docs, _ = made(rows=5)
    failed = []
    elmo.set_error_handler(lambda *args: failed.append(args[2:]))
    with pytest.warns(UserWarning, match="ELW06"):
        found = list(elmo.pipe(docs, batch_size=10))
    ((left, error),) = failed
    assert [*found, *left] == docs and left[0] is docs[3]
    assert "EL080" in str(error) and "6 tokens" in str(error)


def test_no_memory_of_the_host_is_no_reason(freed, monkeypatch):
    elmo, docs, _ = made(rows=5)
    monkeypatch.setattr(sys.modules[__name__], "OutOfMemoryError", MemoryError)
    with pytest.raises(MemoryError):
        list(elmo.pipe(docs))
    assert freed == []


def test_weights_that_do_not_fit_a_gpu_are_not_damaged(tmp_path, monkeypatch):
    nlp = spacy.blank("xx")
    add_elmo(nlp)
    nlp.to_disk(tmp_path)

    def full(bilm, device):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(BiLM, "to", full)
    with pytest.raises(MemoryError, match="EL076"):
        spacy.load(tmp_path)


def test_memory_is_taken_for_the_words_that_are_there():
    nlp = spacy.blank("xx")
    elmo = add_elmo(nlp, model={"cache_words": 10**12})
    nlp("a cat")
    assert nlp("a bank").tensor.shape == (2, elmo.width)
