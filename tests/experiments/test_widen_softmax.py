"""Wider clusters in the softmax of a biLM that is trained on."""

import pytest
import torch

from experiments.widen_softmax import main, widen
from spacy_elmo.bilm.objectives import AdaptiveSoftmax
from spacy_elmo.models import find
from spacy_elmo.models.model_card import read_card
from spacy_elmo.pretrain.model import LanguageModel


def test_distributions_stay_and_new_columns_learn():
    torch.manual_seed(1)
    softmax, h_NH = AdaptiveSoftmax(16, 40, [4, 9], 4), torch.randn(40, 16)
    words_N = torch.arange(40)
    wider = widen(softmax, 2)
    assert torch.allclose(softmax(h_NH, words_N), wider(h_NH, words_N), atol=1e-6)
    assert torch.allclose(softmax.vectors(), wider.vectors(), atol=1e-6)
    wider(h_NH, words_N).sum().backward()
    for cluster, width in zip(wider.clusters.tail, (4, 1)):  # what they were before
        words_VK = cluster[1].weight
        assert words_VK.shape[1] > width and words_VK.grad[:, width:].abs().min() > 0


def test_narrower_clusters_are_refused():
    with pytest.raises(ValueError, match="wider"):
        widen(AdaptiveSoftmax(16, 40, [4, 9], 2), 4)


def test_what_is_written_is_the_same_bilm(tmp_path):
    main(find("en_elmo_sm"), 3.0, tmp_path / "wider")
    before, wider = (
        LanguageModel.load(path) for path in (find("en_elmo_sm"), tmp_path / "wider")
    )
    assert wider.bilm.fingerprint() == before.bilm.fingerprint()
    assert wider.softmax.div_value == 3.0
    words, h = torch.arange(0, 50_000, 997), torch.randn(51, before.softmax.width)
    assert torch.allclose(wider.softmax(h, words), before.softmax(h, words), atol=1e-4)
    tokens = read_card(tmp_path / "wider")["tokens_seen"]
    assert tokens == read_card(find("en_elmo_sm"))["tokens_seen"]
