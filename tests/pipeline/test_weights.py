"""Where the weights of a component come from and go to."""

import json
import shutil
import warnings

import numpy as np
import pytest
import spacy

import spacy_elmo
from spacy_elmo import models as shipped
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.weights.own import FORMAT_VERSION
from spacy_elmo.pipeline import Elmo, component_config

from ..models import tiny_config
from ..pipelines import (
    LISTENER,
    TAGGER,
    add_elmo,
    annotations,
    examples,
    pipeline,
    sizes,
    trained,
    with_weights,
)


@pytest.fixture(scope="module")
def nlp():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    add_elmo(nlp)
    return nlp


def test_to_and_from_bytes_and_disk(nlp, tmp_path):
    expected = nlp("A cat sat.").tensor
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert np.array_equal(loaded("A cat sat.").tensor, expected)
    assert loaded.get_pipe("elmo").to_bytes() == nlp.get_pipe("elmo").to_bytes()
    other = spacy.load(tmp_path, config={"components.elmo.gamma": 2.0})
    assert np.allclose(other("A cat sat.").tensor, 2 * expected, atol=1e-6)


def test_saved_before_use_holds_the_shipped_weights(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.to_disk(tmp_path)
    assert np.array_equal(spacy.load(tmp_path)("A cat").tensor, nlp("A cat").tensor)


def test_load_weights_and_component_config(tmp_path, tiny):
    tiny.save(tmp_path, format="bilm-tf")
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo", config=component_config(tmp_path))
    elmo.load_weights(tmp_path)
    expected = tiny.encode([["A", "cat"]])[0]
    assert abs(nlp("A cat")._.elmo.layers - expected).max() < 1e-6
    assert spacy_elmo.component_config(tmp_path) == component_config(tmp_path)


def test_weights_whose_card_is_damaged_are_not_taken(tmp_path, tiny):
    tiny.save(tmp_path, card={"version": "1"})
    (tmp_path / "card.json").write_text("{")
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo", config={"model": sizes(tiny.config)})
    with pytest.raises(ValueError, match="EL002"):
        elmo.load_weights(tmp_path)
    assert not elmo.has_weights


def test_initialize_reads_weights(tmp_path, tiny):
    tiny.save(tmp_path)
    reader = {"@readers": "spacy-elmo.WeightsReader.v1", "path": str(tmp_path)}
    config = {
        "nlp": {"lang": "en", "pipeline": ["elmo"]},
        "components": {"elmo": {"factory": "elmo", "model": sizes(tiny.config)}},
        "initialize": {"components": {"elmo": {"weights": reader}}},
    }
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    nlp.initialize()
    assert abs(nlp("A cat")._.elmo.layers - tiny.encode([["A", "cat"]])[0]).max() < 1e-6
    config["initialize"]["components"]["elmo"]["weights"]["path"] = None
    with pytest.raises(ValueError, match="EL052"):
        spacy.util.load_model_from_config(config, auto_fill=True).initialize()


def test_no_weights_is_an_error_not_random_vectors():
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": sizes(tiny_config())})
    for use in (lambda: nlp("a"), nlp.initialize, nlp.to_bytes):
        with pytest.raises(ValueError, match="EL050"):
            use()


def test_to_be_trained_from_nothing_warns():
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": sizes(tiny_config()), "frozen": False})
    with pytest.warns(UserWarning, match="ELW03"):
        nlp.initialize()
    assert nlp("a").tensor.any()


def test_random_word_input_is_refused():
    nlp = spacy.blank("en")
    config = {"model": sizes(tiny_config(n_words=5)), "frozen": False}
    nlp.add_pipe("elmo", config=config)
    with pytest.raises(ValueError, match="EL050"):
        nlp.initialize()


def test_weights_of_other_sizes(tmp_path, nlp):
    BiLM.random(tiny_config(hidden_dim=20)).save(tmp_path)
    with pytest.raises(ValueError, match=r"EL052.*hidden_dim = 20 \(configured: 12\)"):
        nlp.get_pipe("elmo").load_weights(tmp_path)
    other = spacy.blank("en")
    add_elmo(other, sizes=tiny_config(hidden_dim=20))
    with pytest.raises(ValueError, match="EL052"):
        other.get_pipe("elmo").from_bytes(nlp.get_pipe("elmo").to_bytes())


def test_damaged_pipeline(nlp, tmp_path):
    import srsly

    nlp.to_disk(tmp_path)
    path = tmp_path / "elmo" / "model"
    content, _, _ = path.read_bytes().rpartition(b"\nsha256:")  # without its checksum
    message = srsly.msgpack_loads(content)
    shims = next(shims for shims in message["shims"] if shims)
    shim = srsly.msgpack_loads(shims[0])
    shims[0] = srsly.msgpack_dumps({**shim, "weights": shim["weights"][:-10]})
    path.write_bytes(srsly.msgpack_dumps(message))
    with pytest.raises(ValueError, match="EL002"):
        spacy.load(tmp_path)


def test_a_flipped_bit_in_a_pipeline(nlp, tmp_path):
    elmo = nlp.get_pipe("elmo")
    elmo.to_disk(tmp_path, exclude=["vocab"])
    elmo.from_disk(tmp_path, exclude=["vocab"])
    path = tmp_path / "model"
    assert list(tmp_path.iterdir()) == [path]
    content = path.read_bytes()
    for at in {*range(0, 600, 7), *range(600, len(content), 1997), *range(-80, 0, 3)}:
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"EL002.*changed"):
            elmo.from_disk(tmp_path, exclude=["vocab"])


def test_a_flipped_bit_in_a_mix(tmp_path):
    """It stands in the file of the component that listens, which is spaCy's."""
    nlp = pipeline()
    nlp.initialize(lambda: examples(nlp))
    listener = nlp.get_pipe("elmo").listeners[0]
    listener.set_param("W", listener.ops.asarray1f([0.12, 0.34, 0.56]))
    nlp.to_disk(tmp_path)
    spacy.load(tmp_path)
    path = tmp_path / nlp.get_pipe("elmo").listening_components[0] / "model"
    content = path.read_bytes()
    start = content.index(listener.get_param("W").tobytes())
    for at in (start, start + 7, start + 10):
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"EL002.*mix.*changed"):
            spacy.load(tmp_path)


def test_package_without_its_model(monkeypatch, tmp_path):
    monkeypatch.setattr("spacy_elmo.models.packages.FOLDER", tmp_path / "gone")
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": sizes(BiLMConfig())})
    with pytest.raises(FileNotFoundError, match="EL051"):
        nlp("a")
    assert shipped.sizes() == BiLMConfig().to_dict()  # and spaCy itself still works


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """The package's models, where they can be damaged."""
    shutil.copytree(shipped.FOLDER, tmp_path / "models")
    monkeypatch.setattr("spacy_elmo.models.packages.FOLDER", tmp_path / "models")
    return tmp_path / "models" / shipped.MODELS["en"]


def used():
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    return nlp("a")


def test_weights_damaged_after_install(installed):
    used()
    path = installed / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-1000] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="EL012"):
        used()
    path.write_bytes(content[:-1000])
    with pytest.raises(ValueError, match="EL002"):
        used()


def test_model_newer_than_the_code(installed):
    path = installed / "config.json"
    header = json.loads(path.read_text(encoding="utf-8"))
    del header["sha256"]
    path.write_text(json.dumps({**header, "format": 99}), encoding="utf-8")
    with pytest.raises(ValueError, match="EL014"):
        used()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ('{"bilm"', "EL002"),
        ("[]", "EL003"),
        ("{}", "EL003"),
        (json.dumps({"format": FORMAT_VERSION, "bilm": {"new_size": 1}}), "EL020"),
        ("\udcff", "EL002"),
    ],
)
def test_damaged_sizes_stop_elmo_and_nobody_else(installed, content, code):
    """spaCy loads every factory when it starts."""
    path = installed / "config.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert shipped.sizes() == BiLMConfig().to_dict()
    with pytest.raises(ValueError, match=code):
        shipped.load("en")


def test_wrong_settings():
    with pytest.raises(ValueError, match="EL085"):
        add_elmo(spacy.blank("en"), mix_weights=[1.0])
    with pytest.raises(ValueError, match="EL020"):
        add_elmo(spacy.blank("en"), model={"activation": "gelu"})
    for model in ({"batch_tokens": 0}, {"cache_words": -1}):
        with pytest.raises(ValueError, match=f"EL026.*{next(iter(model))}"):
            add_elmo(spacy.blank("en"), model=model)
    for name in ("max_layers_mb", "learn_rate_factor", "learn_rate", "unfreeze_every"):
        with pytest.raises(ValueError, match=f"EL026.*{name}.*-1"):
            add_elmo(spacy.blank("en"), **{name: -1})
    for weights in ("abc", ["a", "b", "c"], 3.0):
        with pytest.raises(ValueError, match=r"EL085.*mix_weights"):
            add_elmo(spacy.blank("en"), mix_weights=weights)
    elmo = add_elmo(spacy.blank("en"))
    with pytest.raises(ValueError, match=r"EL026.*layer_cache_mb.*-5"):
        elmo.use_layer_cache("memory", -5)
    elmo.use_layer_cache("memory", 0.5)
    assert elmo.layer_cache.max_bytes == 1 << 19
    nlp = spacy.blank("en")
    with pytest.raises(NotImplementedError, match="EL059"):
        add_elmo(nlp).add_label("X")


def test_wrong_tensor_is_refused(nlp):
    elmo = nlp.get_pipe("elmo")
    doc = nlp.make_doc("a b")
    with pytest.raises(ValueError, match="EL058"):
        elmo.set_annotations([doc], elmo.predict([nlp.make_doc("a b c")]))


def test_listener_widths(nlp):
    other = spacy.blank("en")
    add_elmo(other)
    config = {"model": {**TAGGER["model"], "tok2vec": {**LISTENER, "width": 99}}}
    with pytest.raises(ValueError, match="EL054"):
        other.add_pipe("tagger", config=config)


def test_word_input_in_a_pipeline(tmp_path):
    words = ["<S>", "</S>", "<UNK>", "A", "cat"]
    config = tiny_config(n_words=5)
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo", config={"model": sizes(config)})
    with_weights(elmo, BiLM.random(config, vocab=words))
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert np.array_equal(loaded("A cat").tensor, nlp("A cat").tensor)
    assert not np.allclose(nlp("A cat").tensor[1], nlp("A dog").tensor[1])
    assert isinstance(elmo, Elmo)


def test_weights_that_are_replaced_between_listeners(tmp_path):
    """Docs are read again, which has nothing to do with the size of their layers."""
    nlp = trained()
    docs = list(nlp.get_pipe("elmo").pipe([nlp.make_doc("I like Paris now")]))
    BiLM.random(tiny_config(), seed=7).save(tmp_path)
    nlp.get_pipe("elmo").load_weights(tmp_path)
    expected = annotations(nlp, "I like Paris now")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("tagger", "ner"):
            docs = list(nlp.get_pipe(name).pipe(docs))
    assert [(token.tag_, token.ent_type_) for token in docs[0]] == expected


@pytest.mark.parametrize("saved", [True, False])
def test_a_mix_is_of_the_weights_that_it_was_trained_with(tmp_path, saved):
    """It is told when others are loaded, and after that when the pipeline is."""
    nlp = trained(20)
    BiLM.random(tiny_config(), seed=7).save(tmp_path / "other")
    if saved:
        nlp.to_disk(tmp_path / "pipeline")
        nlp = spacy.load(tmp_path / "pipeline")
    with pytest.warns(UserWarning, match="ELW20"):
        nlp.get_pipe("elmo").load_weights(tmp_path / "other")
    nlp.to_disk(tmp_path / "again")
    with pytest.warns(UserWarning, match="ELW20"):
        spacy.load(tmp_path / "again")
