"""Pipelines that are built in code, and filled with what another one has saved."""

import numpy as np
import pytest
import spacy

from spacy_elmo import BiLM, models

from ..models import tiny_config
from ..pipelines import LISTENER, TAGGER, examples

TEXT = "I like Paris now"


@pytest.fixture
def weights(tmp_path):
    folder = tmp_path / "weights"
    BiLM.random(tiny_config(), seed=4).save(folder)
    return str(folder)


def built(weights=None, *, tagger=False, **settings):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": weights, **settings})
    if tagger:
        nlp.add_pipe("tagger", config=TAGGER)
    return nlp


def by_disk(nlp, saved, folder):
    return nlp.from_disk(folder)


def by_bytes(nlp, saved, folder):
    return nlp.from_bytes(saved.to_bytes())


def by_component_disk(nlp, saved, folder):
    for name in nlp.pipe_names:
        nlp.get_pipe(name).from_disk(folder / name, exclude=["vocab"])
    return nlp


def by_component_bytes(nlp, saved, folder):
    for name, pipe in saved.components:
        nlp.get_pipe(name).from_bytes(pipe.to_bytes(exclude=["vocab"]))
    return nlp


WAYS = [by_disk, by_bytes, by_component_disk, by_component_bytes]


def close(a, b):
    return a.shape == b.shape and np.allclose(a, b, atol=1e-6)


def same(nlp, saved):
    found, expected = nlp(TEXT), saved(TEXT)
    assert close(found.tensor, expected.tensor)
    assert close(found._.elmo.layers, expected._.elmo.layers)
    assert [token.tag_ for token in found] == [token.tag_ for token in expected]


@pytest.mark.parametrize("fill", WAYS)
@pytest.mark.parametrize("tagger", [False, True])
def test_with_the_same_settings(fill, tagger, weights, tmp_path):
    saved = built(weights, tagger=tagger)
    if tagger:
        batch = examples(saved)
        optimizer = saved.initialize(lambda: batch)
        for _ in range(20):
            saved.update(batch, sgd=optimizer)
    saved.to_disk(tmp_path / "saved")
    new = built(weights, tagger=tagger)
    if tagger and fill in (by_component_disk, by_component_bytes):
        for label in saved.get_pipe("tagger").labels:
            new.get_pipe("tagger").add_label(label)
    same(fill(new, saved, tmp_path / "saved"), saved)


@pytest.mark.parametrize("fill", WAYS)
def test_without_naming_weights(fill, weights, tmp_path):
    """Sizes that nobody has chosen are those of what is loaded, and are saved."""
    saved = built(weights)
    saved.to_disk(tmp_path / "saved")
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo")
    tok2vec = {**LISTENER, "width": tiny_config().width}
    model = {**TAGGER["model"], "tok2vec": LISTENER}
    filled = fill(nlp, saved, tmp_path / "saved")
    same(filled, saved)
    assert elmo.width == tiny_config().width
    nlp.add_pipe("tagger", config={"model": {**model, "tok2vec": tok2vec}})
    nlp.initialize(lambda: examples(nlp))
    nlp.to_disk(tmp_path / "again")
    again = spacy.load(tmp_path / "again")
    assert np.array_equal(again(TEXT).tensor, saved(TEXT).tensor)


@pytest.mark.parametrize("fill", WAYS)
def test_listeners_get_the_width(fill, weights, tmp_path):
    saved = built(weights, tagger=True)
    saved.initialize(lambda: examples(saved))
    saved.to_disk(tmp_path / "saved")
    new = built(tagger=True)
    for label in saved.get_pipe("tagger").labels:
        new.get_pipe("tagger").add_label(label)
    same(fill(new, saved, tmp_path / "saved"), saved)


@pytest.mark.parametrize("fill", WAYS)
@pytest.mark.parametrize("used", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_of_a_shipped_model(fill, used, tmp_path):
    saved = built(models.MODELS["ko"])
    saved.to_disk(tmp_path / "saved")
    new = built(models.MODELS["ko"])
    if used:
        new(TEXT)
    same(fill(new, saved, tmp_path / "saved"), saved)


@pytest.mark.parametrize("fill", WAYS)
def test_sizes_that_were_chosen_must_be_those(fill, weights, tmp_path):
    saved = built(weights)
    saved.to_disk(tmp_path / "saved")
    chosen = built(model={"hidden_dim": 16, "projection_dim": 8})
    with pytest.raises(ValueError, match=r"EL052.*projection_dim = 6"):
        fill(chosen, saved, tmp_path / "saved")
    used = built()
    before = used(TEXT).tensor
    with pytest.raises(ValueError, match=r"EL052.*projection_dim = 6"):
        fill(used, saved, tmp_path / "saved")
    assert np.array_equal(used(TEXT).tensor, before)


def test_what_is_damaged_changes_nothing(weights, tmp_path):
    saved = built(weights)
    saved.to_disk(tmp_path / "saved")
    file = tmp_path / "saved" / "elmo" / "model"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    nlp = built()
    with pytest.raises(ValueError, match="EL002"):
        nlp.from_disk(tmp_path / "saved")
    assert nlp.get_pipe("elmo").width == nlp(TEXT).tensor.shape[1] == 512


def test_component_from_the_folder_of_a_pipeline(weights, tmp_path):
    """Where no vocab is saved beside the component."""
    saved = built(weights)
    expected = saved(TEXT).tensor
    saved.to_disk(tmp_path / "saved")
    nlp = built()
    nlp.get_pipe("elmo").from_disk(tmp_path / "saved" / "elmo")
    assert np.array_equal(nlp(TEXT).tensor, expected)
    saved.get_pipe("elmo").to_disk(tmp_path / "alone")  # with one
    nlp = built()
    nlp.get_pipe("elmo").from_disk(tmp_path / "alone")
    assert np.array_equal(nlp(TEXT).tensor, expected)
    with pytest.raises(ValueError, match="EL002"):
        nlp.get_pipe("elmo").from_disk(tmp_path / "nothing")
