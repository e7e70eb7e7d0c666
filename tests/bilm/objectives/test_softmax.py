"""The exact softmaxes: distributions over the vocabulary, computed in chunks."""

import pytest
import torch

from spacy_elmo.bilm.objectives import AdaptiveSoftmax, FullSoftmax
from spacy_elmo.bilm.objectives.adaptive import adaptive_softmax
from spacy_elmo.machine import transfer


def make_softmax(width, n_words, cutoffs=()):
    return adaptive_softmax(list(cutoffs))(width, n_words)


def test_full_softmax_in_chunks(monkeypatch):
    torch.manual_seed(0)
    softmax, h, target = FullSoftmax(8, 20), torch.randn(7, 8), torch.arange(7)
    expected = torch.log_softmax(h @ softmax.weight.t() + softmax.bias, 1)[
        range(7), target
    ]
    two = transfer.CPU_BATCH_LIMITS._replace(logits=40)
    monkeypatch.setattr(transfer, "CPU_BATCH_LIMITS", two)
    assert torch.allclose(softmax(h, target), expected, atol=1e-6)


def test_cutoffs_beyond_the_vocabulary_are_left_out():
    assert isinstance(make_softmax(8, 20, [30]), FullSoftmax)
    softmax = make_softmax(8, 20, [5, 30])
    assert isinstance(softmax, AdaptiveSoftmax) and softmax.cutoffs == [5]


@pytest.mark.parametrize("cutoffs", [[9, 4], [0, 4], [4, 4], [2, 4, 8, 12]])
def test_clusters_that_can_not_be(cutoffs):
    with pytest.raises(ValueError, match="EL029"):
        make_softmax(8, 20, cutoffs)


@pytest.mark.parametrize("cutoffs", [(), (4, 8)])
def test_one_vector_a_word(cutoffs):
    """How much likelier one word is than another of its cluster depends on h through
    the difference of their vectors."""
    torch.manual_seed(0)
    softmax = make_softmax(16, 12, cutoffs)
    vectors_VH, h_NH = softmax.vectors(), torch.randn(5, 16)
    for a, b in ((0, 3), (5, 6), (9, 11)):
        log_p = [softmax(h_NH, torch.full((5,), word)) for word in (a, b)]
        found = log_p[0] - log_p[1]
        expected = h_NH @ (vectors_VH[a] - vectors_VH[b])
        # Their biases are the same for every h.
        assert torch.allclose(found - found[0], expected - expected[0], atol=1e-5)
