"""What is done to a model before it ships."""

import copy

import numpy as np
import pytest
import torch

from experiments.ship import scale_token_layer
from spacy_elmo import BiLM

from ..models import SENTENCES, tiny_config


@pytest.mark.parametrize("times", [16.0, 1.0, 0.25])
def test_token_vectors_are_as_long_as_those_of_the_first_layer(times):
    """And the other layers are what they were, to the bit."""
    bilm = BiLM.random(tiny_config(), seed=1)
    own = copy.deepcopy(bilm)
    usual = scale_token_layer(own, SENTENCES)
    with torch.no_grad():
        for weight in (
            bilm.token_encoder.projection_weight,
            bilm.token_encoder.projection_bias,
        ):
            weight.mul_(times)
        for lstm in (bilm.forward_lstm, bilm.backward_lstm):
            lstm.layers[0].weight_x.div_(times)
    before = bilm.encode(SENTENCES)
    scale = scale_token_layer(bilm, SENTENCES)
    assert scale == usual / times
    layers = bilm.encode(SENTENCES)
    for a, b in zip(before, layers):
        assert (a[0] * scale == b[0]).all() and (a[1:] == b[1:]).all()
    lengths = [np.linalg.norm(np.hstack(layers)[n], axis=1).mean() for n in (0, 1)]
    assert 0.7 < lengths[0] / lengths[1] < 1.5
