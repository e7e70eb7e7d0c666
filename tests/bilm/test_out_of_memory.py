"""A GPU's memory that is too small; made small here, since it takes none to test."""

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.bilm.bilm import BiLM

from ..models import tiny_config

SENTENCES = [[f"w{i}" for i in range(n)] for n in (3, 9, 0, 5, 9, 1)]


def holding(bilm, tokens):
    """The biLM on a device whose memory holds so many tokens."""
    real = bilm.forward

    def forward(batch, *args):
        if len(batch.word_N) > tokens:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return real(batch, *args)

    bilm.forward = forward
    return bilm


@settings(max_examples=30, deadline=None)
@given(budget=st.integers(1, 80), memory=st.integers(11, 60))
def test_vectors_are_the_same_in_parts(budget, memory):
    expected = BiLM.random(tiny_config()).encode(SENTENCES)
    bilm = holding(BiLM.random(tiny_config()), memory)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = bilm.encode(SENTENCES, batch_tokens=budget)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a == pytest.approx(b, abs=1e-6)
    if budget <= memory:
        assert not caught
    if caught:
        assert "ELW06" in str(caught[0].message)


def test_a_sentence_that_does_not_fit_is_named():
    bilm = holding(BiLM.random(tiny_config()), 10)
    with pytest.warns(UserWarning, match=r"ELW06.*batch_tokens = 19"):  # noqa: SIM117
        with pytest.raises(MemoryError, match=r"EL080.*11 tokens.*length"):
            bilm.encode(SENTENCES)
