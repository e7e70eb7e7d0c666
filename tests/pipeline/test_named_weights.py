"""Weights that the configuration of a component names, in one step."""

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import spacy
import torch
from confection import Config
from spacy.training import Example

from spacy_elmo import BiLM, models
from spacy_elmo.bilm import weights as files
from spacy_elmo.models import read_card

from ..models import tiny_config
from ..pipelines import LISTENER, TAGGER

SENTENCE = ["A", "cat"]


@pytest.fixture
def published(tiny, tmp_path):
    """A folder with files that are named as they are published."""
    folder = tmp_path / "published"
    tiny.save(folder, format="bilm-tf")
    for name in ("options.json", "weights.hdf5"):
        (folder / name).rename(folder / f"elmo_tiny_{name}")
    return folder


def pipeline(weights, **settings):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(weights), **settings})
    return nlp


def same(found, expected):
    return np.allclose(found, expected, atol=1e-6)


def layers(nlp):
    return nlp(" ".join(SENTENCE))._.elmo.layers


def test_in_one_step(published, tiny):
    for weights in (published, published / "elmo_tiny_weights.hdf5"):
        nlp = pipeline(weights)
        assert nlp.get_pipe("elmo").width == tiny.config.width
        assert same(layers(nlp), tiny.encode([SENTENCE])[0])


@pytest.mark.skipif(os.name == "nt", reason="there it is only a file that is not")
def test_a_name_that_is_too_long():
    for load in (BiLM.load, models.find):
        with pytest.raises(ValueError, match="EL002"):
            load("a" * 300)
    with pytest.raises(ValueError, match="EL002"):
        layers(pipeline("a" * 300))


def test_the_folder_of_a_pipeline(tmp_path):
    """It says how its biLM becomes a model folder."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo").load_weights("en_elmo_sm")
    nlp.to_disk(tmp_path / "pipeline")
    way_out = r"EL001.*is a pipeline.*get_pipe\('elmo'\)\.bilm\.save\(FOLDER\)"
    with pytest.raises(FileNotFoundError, match=way_out):
        BiLM.load(tmp_path / "pipeline")
    spacy.load(tmp_path / "pipeline").get_pipe("elmo").bilm.save(tmp_path / "model")
    assert same(layers(pipeline(tmp_path / "model")), layers(nlp))


def test_a_shipped_name():
    nlp = pipeline(models.MODELS["ko"])
    expected = models.load("ko").encode([SENTENCE])[0]
    assert same(layers(nlp), expected)


def test_the_configuration_stays_as_it_was_written(published, tiny):
    """Sizes that are not chosen there are those of the weights."""
    nlp = pipeline(published, model={"batch_tokens": 99})
    config = nlp.config["components"]["elmo"]
    assert config["weights"] == str(published)
    assert config["model"]["batch_tokens"] == 99
    for name in tiny.config.to_dict():
        assert config["model"][name] is None
    nlp("A cat")
    nlp.get_pipe("elmo").frozen = False
    assert nlp.config["components"]["elmo"] == config
    again = spacy.util.load_model_from_config(nlp.config)
    assert same(layers(again), layers(nlp))


def test_a_saved_pipeline_needs_the_folder_no_more(published, tmp_path):
    """Nor does it look at what is there instead."""
    nlp = pipeline(published)
    nlp.add_pipe("tagger", config=TAGGER)
    nlp.get_pipe("tagger").add_label("N")
    nlp.initialize()
    expected = layers(nlp)
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(published)
    for _ in range(2):
        loaded = spacy.load(tmp_path / "pipeline")
        assert same(layers(loaded), expected)
        copied = spacy.blank("en").from_config(nlp.config).from_bytes(loaded.to_bytes())
        assert same(layers(copied), expected)
        BiLM.random(tiny_config(hidden_dim=30)).save(published)


def test_saved_before_use_with_the_weights(published, tiny, tmp_path):
    pipeline(published).to_disk(tmp_path / "pipeline")
    shutil.rmtree(published)
    found = layers(spacy.load(tmp_path / "pipeline"))
    assert same(found, tiny.encode([SENTENCE])[0])


def test_of_default_sizes(tmp_path):
    """Sizes in the configuration don't tell a saved pipeline from a new one then."""
    bilm = models.load("ko")
    bilm.save(tmp_path / "bilm", dtype="float16")
    nlp = pipeline(tmp_path / "bilm")
    nlp.to_disk(tmp_path / "pipeline")
    expected = layers(nlp)
    for name in ("config.json", "weights.safetensors"):
        (tmp_path / "bilm" / name).write_text("damaged")
        loaded = spacy.load(tmp_path / "pipeline")
        assert same(layers(loaded), expected)


def test_a_saved_pipeline_of_default_sizes_keeps_them(tmp_path):
    """Whatever the folder that it was made with holds now."""
    folder = tmp_path / "bilm"
    models.load("en").save(folder)
    nlp = pipeline(folder)
    nlp.add_pipe("tagger", config=TAGGER)
    nlp.get_pipe("tagger").add_label("N")
    nlp.initialize()
    expected, (tagged,) = layers(nlp), nlp.pipe(["A cat"])
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(folder)
    BiLM.random(tiny_config(n_layers=3)).save(folder)
    loaded = spacy.load(tmp_path / "pipeline")
    assert same(layers(loaded), expected)
    assert [t.tag_ for t in loaded("A cat")] == [t.tag_ for t in tagged]
    assert loaded.get_pipe("elmo").width == models.load("en").config.width
    new = pipeline(folder)
    assert layers(new).shape == (4, 2, 12)


def test_weights_that_are_not_there(tmp_path):
    nlp = pipeline(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"EL001.*nowhere"):
        nlp("A cat")
    with pytest.raises(FileNotFoundError, match=r"EL001.*nowhere"):
        nlp.initialize()


def test_sizes_that_are_given_must_fit(published, tiny):
    """Else the message has the block that does."""
    nlp = pipeline(published, model={"hidden_dim": 8, "projection_dim": 4})
    with pytest.raises(ValueError, match="EL052") as raised:
        nlp("A cat")
    block = str(raised.value).rpartition("[components.elmo.model]")[2]
    model = Config().from_str(f"[model]{block}")["model"]
    assert layers(pipeline(published, model=model)).shape == (3, 2, 12)
    assert {
        name: model[name] for name in tiny.config.to_dict()
    } == tiny.config.to_dict()


def test_sizes_that_version_0_2_wrote_where_none_were_chosen(published, tiny):
    """It filled a configuration with the shipped model's, and then took no notice."""
    nlp = pipeline(published, model=models.sizes())
    assert same(layers(nlp), tiny.encode([SENTENCE])[0])


def test_replaced_listeners_have_the_sizes(published, tiny):
    """They have no component whose weights could be looked at."""
    nlp = pipeline(published)
    nlp.add_pipe("tagger", config=TAGGER)
    nlp.get_pipe("tagger").add_label("N")
    nlp.initialize()
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    bilm = nlp.config["components"]["tagger"]["model"]["tok2vec"]["bilm"]
    expected = tiny.config.to_dict()
    assert {name: bilm[name] for name in expected} == expected


def test_listeners_have_the_width_of_the_weights(published, tiny):
    nlp = pipeline(published)
    tagger = {"model": {**TAGGER["model"], "tok2vec": {**LISTENER, "width": 12}}}
    nlp.add_pipe("tagger", config=tagger)
    doc = nlp.make_doc("A cat")
    examples = [Example.from_dict(doc, {"tags": ["D", "N"]})]
    nlp.initialize(lambda: examples)
    nlp.update(examples)
    assert same(layers(nlp), tiny.encode([SENTENCE])[0])
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    replaced = spacy.util.load_model_from_config(nlp.config)
    replaced.from_bytes(nlp.to_bytes())
    assert replaced("A cat")[0].tag_ == nlp("A cat")[0].tag_


def test_named_weights_come_before_what_ships(tmp_path):
    """Also where the reader of [initialize] names none, as `init-config` writes it."""
    bilm = models.load("en")
    with torch.no_grad():
        bilm.forward_lstm.layers[0].weight_p += 0.01
    bilm.save(tmp_path / "own")
    reader = {"@readers": "spacy-elmo.WeightsReader.v1", "path": None}
    nlp = pipeline(tmp_path / "own")
    nlp.config["initialize"]["components"] = {"elmo": {"weights": reader}}
    nlp.initialize()
    own = BiLM.load(tmp_path / "own").fingerprint()
    assert nlp.get_pipe("elmo").fingerprint() == own != models.load("en").fingerprint()


def test_what_initialize_names_comes_first(published, tiny, tmp_path):
    other = BiLM.random(tiny_config(), seed=9)
    other.save(tmp_path / "other")
    reader = {"@readers": "spacy-elmo.WeightsReader.v1"}
    config = pipeline(published).config
    config["initialize"]["components"] = {
        "elmo": {"weights": {**reader, "path": str(tmp_path / "other")}}
    }
    nlp = spacy.util.load_model_from_config(config)
    nlp.initialize()
    assert same(layers(nlp), other.encode([SENTENCE])[0])


def test_fine_tuned_from_named_weights(published, tiny):
    nlp = pipeline(published, frozen=False)
    nlp.initialize()
    assert nlp.get_pipe("elmo").bilm.fingerprint() == tiny.fingerprint()
    assert files.read_config(published) == tiny.config


def test_meta_says_which_weights_a_pipeline_has(published, tmp_path):
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo")
    assert "elmo" not in nlp.meta  # nothing is loaded before it is used
    nlp("A cat")
    version = read_card(models.folder("en"))["version"]
    assert nlp.meta["elmo"] == {"elmo": {"weights": "en_elmo_sm", "version": version}}
    elmo.model.layers[0].shims[0].origin["version"] = "0"  # as one with older weights
    nlp.to_disk(tmp_path / "pipeline")
    saved = spacy.load(tmp_path / "pipeline")
    assert saved.meta["elmo"]["elmo"]["version"] == "0"
    assert same(layers(saved), layers(nlp))
    assert saved.meta["elmo"]["elmo"]["version"] == "0"
    assert elmo.fingerprint() == saved.get_pipe("elmo").fingerprint()
    other = pipeline(published)
    other("A cat")
    assert other.meta["elmo"]["elmo"] == {"weights": "published", "version": None}


@pytest.mark.parametrize("used", [False, True])
def test_a_saved_component_says_which_weights_it_has(published, tmp_path, used):
    """In the pipeline that it was made for and in one that it was sourced into, whether
    or not its weights were read before; also under another name, and from bytes."""
    nlp, other = pipeline(published), spacy.blank("en")
    other.add_pipe("elmo", source=nlp, name="sourced")
    if used:
        nlp("A cat")
    expected = {"weights": "published", "version": None}
    filled = pipeline(published).from_bytes(nlp.to_bytes())
    assert filled.meta["elmo"] == {"elmo": expected}
    nlp.rename_pipe("elmo", "renamed")
    for each, name in ((nlp, "renamed"), (other, "sourced")):
        each.to_disk(tmp_path / name)
        assert spacy.load(tmp_path / name).meta["elmo"] == {name: expected}


def test_threads_that_begin_together_load_the_weights_once(monkeypatch):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    load, loaded, together = BiLM.load, [], threading.Barrier(4)

    def count(path):
        loaded.append(path)
        return load(path)

    def read(_):
        together.wait()
        return nlp("I like Paris").tensor.sum()

    monkeypatch.setattr(BiLM, "load", count)
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(read, range(4)))) == 1
    assert len(loaded) == 1
