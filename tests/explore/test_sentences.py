"""Cosines and surprise are those of the model."""

import math

import numpy as np
import pytest
import torch

from spacy_elmo.explore import sentence_view
from spacy_elmo.explore.sentences import MAX_TOKENS, surprise
from spacy_elmo.pretrain.model import LanguageModel, on_device
from spacy_elmo.text.corpus import build_corpus
from spacy_elmo.text.streams import Streams

from .views import VOCAB, tiny_bilm, tiny_softmax

FIRST = ["the", "boat", "lay", "고양이", "bank"]
SECOND = ["we", "saw", "money"]


@pytest.fixture(scope="module")
def bilm():
    return tiny_bilm()


def cosine(u, v):
    return float(u @ v / np.linalg.norm(u) / np.linalg.norm(v))


@pytest.mark.parametrize("second", [None, SECOND])
def test_cosines_of_every_token_with_every_token(bilm, second):
    view = sentence_view(bilm, FIRST, second)
    a, b = bilm.encode([FIRST, second or FIRST])
    for layer, found in enumerate(view.data["cosines"]):
        expected = [[cosine(u, v) for v in b[layer]] for u in a[layer]]
        assert np.allclose(np.array(found) / 1000, expected, atol=6e-4)
    assert view.data["sentences"] == [FIRST] + ([second] if second else [])
    assert view.data["surprise"] is None


def test_surprise_is_the_loss_of_training_on_the_sentence(bilm):
    softmax = tiny_softmax(bilm)
    ahead_T, back_T = surprise(bilm, softmax, FIRST)
    # The trainer reads the sentence from the same state, in its streams.
    corpus = build_corpus([FIRST] * 2, vocab=VOCAB)
    streams = Streams(corpus, bilm, 1, len(FIRST) + 1)
    model = LanguageModel(bilm, softmax).eval()
    batch = on_device(streams.batch(0), torch.device("cpu"))
    with torch.no_grad():
        log_p_P, _ = model(batch, bilm.zero_state(1))
    ahead_P, back_P = log_p_P.tensor_split([len(batch.forward.target_P)])
    n = len(FIRST)
    assert np.allclose(ahead_T, -ahead_P[:n] / math.log(2), atol=1e-4)
    assert np.allclose(back_T, -back_P[:n].flip(0) / math.log(2), atol=1e-4)
    view = sentence_view(bilm, FIRST, softmax=softmax)
    (found,) = view.data["surprise"]
    assert np.allclose(found["forward"], ahead_T, atol=6e-3)
    assert np.allclose(found["backward"], back_T, atol=6e-3)
    assert found["known"] == [True, True, True, False, True]


@pytest.mark.parametrize("tokens", [[], ["a"] * (MAX_TOKENS + 1)])
def test_sentences_that_no_page_holds_are_refused(bilm, tokens):
    with pytest.raises(ValueError, match="EL221"):
        sentence_view(bilm, FIRST, tokens)
