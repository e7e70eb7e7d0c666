"""Parity with a float64 NumPy biLM over random models of several shapes."""

import json

import h5py
import numpy as np
import pytest
from hypothesis import given, settings

from spacy_elmo.bilm.bilm import BiLM

from ..models import any_sentence, tiny_config
from . import reference

SHAPES = {
    "usual": {},
    "tanh": {"activation": "tanh"},
    "no skip": {"skip_connections": False},
    "no clips": {"cell_clip": None, "proj_clip": None},
    "cell clip only": {"proj_clip": None},
    "three layers": {"n_layers": 3},
    "one layer": {"n_layers": 1},
    "no highway": {"n_highway": 0},
    "no token projection": {
        "token_projection": False,
        "projection_dim": 16,
        "hidden_dim": 20,
    },
    "no lstm projection": {"lstm_projection": False, "projection_dim": 12},
    "wide filters": {"filters": ((7, 3), (2, 2), (50, 2))},
    "short words": {"max_characters": 8},
}
SENTENCE = [
    "The",
    "naïve",
    "고양이",
    "<S>",
    "",
    "x" * 70,
    "é" * 40,
    "<UNK>",
    "\ud800y",
    "🙂",
]


def exported(bilm, folder):
    bilm.save(folder, format="bilm-tf")
    options = json.loads((folder / "options.json").read_text())
    with h5py.File(folder / "weights.hdf5") as file:
        names = []
        file.visititems(
            lambda name, item: names.append(name) if hasattr(item, "shape") else None
        )
        return {name: file[name][...] for name in names}, options


@pytest.mark.parametrize("shape", SHAPES)
def test_layers_equal_the_reference(shape, tmp_path):
    bilm = BiLM.random(tiny_config(**SHAPES[shape]), seed=3)
    weights, options = exported(bilm, tmp_path)
    expected = reference.encode(weights, options, SENTENCE)
    (found,) = bilm.encode([SENTENCE])
    assert found.dtype == np.float32
    assert found.shape == (bilm.config.n_layers + 1, len(SENTENCE), bilm.config.width)
    assert abs(found - expected).max() < 1e-5
    # The clips of the usual model must have been at work, or they are not tested.
    config = bilm.config
    if config.lstm_projection and config.proj_clip is not None:
        assert np.isclose(abs(found[1]), config.proj_clip).any()


@settings(max_examples=25, deadline=None)
@given(sentence=any_sentence)
def test_any_sentence_equals_the_reference(sentence, tmp_path_factory):
    bilm = BiLM.random(tiny_config(), seed=4)
    weights, options = exported(bilm, tmp_path_factory.mktemp("tf"))
    (found,) = bilm.encode([sentence])
    assert found.shape == (3, len(sentence), 12)
    if sentence:
        assert abs(found - reference.encode(weights, options, sentence)).max() < 1e-5
