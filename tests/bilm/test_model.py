"""The definition: against a float64 NumPy biLM, and the names of its arrays."""

import numpy as np
import pytest
import torch

from spacy_elmo import BiLM
from spacy_elmo.bilm.encode import pack
from spacy_elmo.bilm.lstm import BiLMState
from spacy_elmo.bilm.model import BidirectionalLM

from ..models import tiny_config
from . import reference
from .test_reference import SENTENCE, SHAPES, exported


def definition_of(bilm):
    """Return the definition with a biLM's weights, in float64."""
    model = BidirectionalLM(bilm.config).double()
    model.load_state_dict(bilm.state_dict())
    return model


def layers_of(model, bilm, sentences):
    """Return the layers that the definition computes of sentences."""
    batch = pack(sentences)
    state = BiLMState.zeros(model.config, len(sentences), next(model.parameters()))
    ids = torch.from_numpy(bilm.character_ids(batch.words))
    word_N, reversed_N = map(torch.from_numpy, (batch.word_N, batch.reversed_N))
    with torch.no_grad():
        layers, _ = model([ids], word_N, reversed_N, batch.batch_sizes, state)
    return [layers[:, positions].numpy() for positions in batch.positions]


@pytest.mark.parametrize("shape", SHAPES)
def test_layers_equal_the_reference(shape, tmp_path):
    bilm = BiLM.random(tiny_config(**SHAPES[shape]), seed=3)
    expected = reference.encode(*exported(bilm, tmp_path), SENTENCE)
    (found,) = layers_of(definition_of(bilm), bilm, [SENTENCE])
    assert abs(found - expected).max() < 1e-12


def test_sentences_of_a_batch_do_not_depend_on_each_other():
    bilm = BiLM.random(tiny_config(), seed=3)
    model = definition_of(bilm)
    sentences = [["a", "b", "c"], [], SENTENCE, ["a"]]
    together = layers_of(model, bilm, sentences)
    for sentence, found in zip(sentences, together):
        (alone,) = layers_of(model, bilm, [sentence])
        assert np.allclose(found, alone, rtol=0, atol=1e-13)


def test_arrays_keep_their_names_and_order():
    """Saved models are read by the names, optimizers' states by the order."""
    config = tiny_config(n_words=3, word_dim=2, filters=((1, 4),), n_highway=1)
    layers = [
        f"{direction}_lstm.layers.{layer}.{name}"
        for direction in ("forward", "backward")
        for layer in (0, 1)
        for name in ("weight_x", "weight_h", "bias", "weight_p")
    ]
    encoder = [
        "char_embedding", "word_embedding", "projection_weight", "projection_bias",
        "conv_weights.0", "conv_biases.0", "highways.0.carry_weight",
        "highways.0.carry_bias", "highways.0.transform_weight",
        "highways.0.transform_bias",
    ]  # fmt: skip
    expected = [*(f"token_encoder.{name}" for name in encoder), *layers]
    for model in (BidirectionalLM(config), BiLM(config)):
        assert [name for name, _ in model.named_parameters()] == expected
        assert list(model.state_dict()) == expected


def test_states():
    config = tiny_config()
    like = torch.zeros(0, dtype=torch.float64)
    states = [
        BiLMState.zeros(config, n, like).map(lambda part, n=n: part + n) for n in (1, 2)
    ]
    joined = BiLMState.join(states)
    assert joined.forward.h.shape == (2, 3, 6) and joined.backward.c.shape == (2, 3, 12)
    assert joined.forward.h.dtype == torch.float64
    assert joined.backward.c[0, :, 0].tolist() == [1, 2, 2]
    assert joined.rows(slice(1, 3)).forward.h.unique().tolist() == [2]
    selected = joined.select(torch.tensor([2, 0]))
    assert selected.forward.c[1, :, 3].tolist() == [2, 1]
