"""Weights of other scales."""

import copy

import numpy as np
import pytest
import torch

from experiments.rescale import GATES, main, scale_token_layer, soften_gates
from spacy_elmo import BiLM
from spacy_elmo.models import find, read_card, started_from
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text import Request, prepare

from ..models import SENTENCES, tiny_config


def tiny(times=1.0):
    """Return a biLM whose token vectors and what reads them are so many times as
    large, and as small."""
    bilm = BiLM.random(tiny_config(), seed=1)
    encoder = bilm.token_encoder
    with torch.no_grad():
        for weight in (encoder.projection_weight, encoder.projection_bias):
            weight.mul_(times)
        for lstm in (bilm.forward_lstm, bilm.backward_lstm):
            lstm.layers[0].weight_x.div_(times)
    return bilm


def token_vectors(bilm):
    vectors = np.concatenate([of[0] for of in bilm.encode(SENTENCES)])
    return torch.from_numpy(vectors)


@pytest.mark.parametrize("times", [16.0, 1.0, 0.25])
def test_token_vectors_are_as_long_as_those_of_the_first_layer(times):
    """And the other layers are what they were, to the bit."""
    usual = scale_token_layer(tiny(), SENTENCES)
    bilm = tiny(times)
    before = bilm.encode(SENTENCES)
    scale = scale_token_layer(bilm, SENTENCES)
    assert scale == usual / times
    layers = bilm.encode(SENTENCES)
    for a, b in zip(before, layers):
        assert (a[0] * scale == b[0]).all() and (a[1:] == b[1:]).all()
    lengths = [np.linalg.norm(np.hstack(layers)[n], axis=1).mean() for n in (0, 1)]
    assert 0.7 < lengths[0] / lengths[1] < 1.5


@pytest.mark.parametrize("times", [1.0, 64.0])
def test_gates_that_were_saturated_have_gradients_again(times):
    bilm = tiny(times)
    with torch.no_grad():
        for lstm in (bilm.forward_lstm, bilm.backward_lstm):
            lstm.layers[0].weight_x.mul_(1000.0)
    saturated = copy.deepcopy(bilm)
    before = soften_gates(bilm, SENTENCES)
    vectors = token_vectors(bilm)
    half = vectors.shape[1] // 2
    assert np.allclose(vectors.mean(dim=0), 0, atol=1e-4 * float(vectors.std()))
    for lstm in (bilm.forward_lstm, bilm.backward_lstm):
        inputs = vectors[:, :half] @ lstm.layers[0].weight_x
        assert float(inputs.detach().std()) == pytest.approx(GATES, rel=1e-3)
    assert before > 100 * GATES

    def gradient(of):
        """Of the first LSTM layer's output by its input, in parts of both."""
        x_NH = token_vectors(of)[:, :half].requires_grad_()
        layer = of.forward_lstm.layers[0]
        o, _, _, g = (x_NH @ layer.weight_x + layer.bias).chunk(4, dim=1)
        (torch.sigmoid(o) * torch.tanh(g)).sum().backward()
        return float(x_NH.grad.norm() * x_NH.detach().norm())

    assert gradient(bilm) > gradient(saturated)


def test_gates_are_softened_as_they_would_be_at_another_scale():
    one, other = tiny(), tiny(64.0)
    for bilm in (one, other):
        soften_gates(bilm, SENTENCES)
        scale_token_layer(bilm, SENTENCES)
    for a, b in zip(one.encode(SENTENCES), other.encode(SENTENCES)):
        assert np.allclose(a, b, atol=1e-5)


def test_what_starts_from_it_says_what_was_read_before(tmp_path):
    text, output = tmp_path / "text.txt", tmp_path / "softened"
    text.write_text("".join(" ".join(s) + "\n" for s in SENTENCES), encoding="utf-8")
    prepare([text], tmp_path / "prepared", Request(lang="xx"), progress=False)
    main("en_elmo_sm", tmp_path / "prepared", output)
    found = LanguageModel.load(output)
    said, shipped = started_from(output), read_card(find("en_elmo_sm"))
    assert said["fingerprint"] == found.bilm.fingerprint() != shipped["fingerprint"]
    for key in ("text", "tokens_seen", "started_from"):
        assert said[key] == shipped[key]


@pytest.mark.parametrize(
    "settings", [{"activation": "tanh"}, {"n_words": 9, "word_dim": 4}]
)
def test_other_token_encoders_are_refused(settings):
    """Their vectors are no multiples of what would be multiplied."""
    bilm = BiLM.random(tiny_config(**settings), seed=1)
    for change in (scale_token_layer, soften_gates):
        with pytest.raises(ValueError, match="relu"):
            change(bilm, SENTENCES)
