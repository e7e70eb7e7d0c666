"""The settings of a component in configurations, and what spaCy's commands see."""

import inspect
from dataclasses import asdict

import pytest
import spacy
from confection import Config, ConfigValidationError
from spacy.cli.debug_model import debug_model
from spacy.schemas import ConfigSchemaTraining
from spacy.training.loggers import console_logger
from spacy.util import registry
from thinc.api import Model

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.pipeline import Elmo
from spacy_elmo.pipeline.encoder import LayerBatch
from spacy_elmo.pipeline.settings import ElmoSettings, ListenerSettings

from ..models import tiny_config
from ..pipelines import LISTENER, add_elmo, examples, pipeline, trained


def filled(block):
    return registry.fill(Config({"block": block}))["block"]


def test_settings_are_said_once():
    """And are the same in the factory, in Python and in every architecture."""
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo")
    assert elmo.settings == ElmoSettings()
    assert Elmo(elmo.vocab, elmo.model).settings == ElmoSettings()
    factory = nlp.get_pipe_config("elmo")
    for name, value in asdict(ElmoSettings()).items():
        assert factory[name] == value
    sizes = filled({"@architectures": "spacy-elmo.BiLM.v1"})
    for name in BiLMConfig().to_dict():
        assert sizes[name] is None
    listener = filled(LISTENER)
    own = filled({"@architectures": "spacy-elmo.Tok2Vec.v1", "bilm": sizes})
    for block in (listener, own):
        for name, value in asdict(ListenerSettings()).items():
            assert block[name] == value
        for name in ("mix_weights", "layer_norm", "gamma"):
            assert block[name] == factory[name]


@pytest.mark.parametrize(
    "block",
    [
        {"hidden_dim": "many"},
        {"hiden_dim": 12},
        {"batch_tokens": "all"},
        {"cell_clip": "none"},
    ],
)
def test_wrong_sizes_are_found_when_a_configuration_is_read(block):
    with pytest.raises((ConfigValidationError, ValueError)):
        filled({"@architectures": "spacy-elmo.BiLM.v1", **block})


def test_configuration_of_a_pipeline_comes_back():
    nlp = pipeline(mix_weights=[1.0, 2.0, 3.0], max_layers_mb=7, learn_rate_factor=1.0)
    again = spacy.util.load_model_from_config(nlp.config)
    assert again.config["components"] == nlp.config["components"]
    assert again.get_pipe("elmo").settings == nlp.get_pipe("elmo").settings


def test_model_reads_docs_by_itself():
    nlp = spacy.blank("en")
    elmo = add_elmo(nlp)
    docs = [nlp.make_doc(text) for text in ("A cat sat.", "", "It  slept")]
    layers = elmo.model.predict(docs)
    assert isinstance(layers, LayerBatch) and len(layers) == 3
    assert elmo.model.get_dim("nO") == 12
    for doc, found in zip(elmo.pipe(docs), layers, strict=True):
        assert abs(found - doc._.elmo.layers).max(initial=0) < 1e-6
    assert [len(part) for part in (layers[:2], layers[-1:], layers[2:1])] == [2, 1, 0]
    assert "3 Docs" in repr(layers)
    with pytest.raises(IndexError):
        layers[3]


@pytest.mark.parametrize("name", ["elmo", "tagger"])
def test_debug_model(name, capsys):
    nlp = pipeline()
    tagger = nlp.get_pipe("tagger")
    tagger.add_label("X")
    config = nlp.config.interpolate()
    config["corpora"] = {"train": {"@readers": "test.NoCorpus.v1"}}
    registry.readers.register("test.NoCorpus.v1", func=lambda: examples)
    training = registry.resolve(config["training"], schema=ConfigSchemaTraining)
    settings = dict.fromkeys(
        ["dimensions", "parameters", "gradients", "attributes"], True
    )
    when = ["before_training", "after_init", "after_training", "prediction"]
    settings |= {f"print_{what}": True for what in when}
    debug_model(config, training, nlp, nlp.get_pipe(name), print_settings=settings)
    assert "model looks good" in capsys.readouterr().out


@pytest.mark.parametrize("frozen", [True, False])
def test_losses_have_a_column_for_what_is_trained(frozen, capsys):
    nlp = trained(frozen=frozen)
    log_step, finish = console_logger()(nlp)
    head = capsys.readouterr().out.upper()
    assert ("LOSS ELMO" in head) is not frozen and "LOSS TAGGER" in head
    losses = nlp.update(examples(nlp), sgd=nlp.create_optimizer())
    log_step(
        {"losses": losses, "other_scores": {}, "epoch": 1, "step": 1, "score": 0.0}
    )
    finish()


def test_models_can_be_built_by_name_in_python():
    build = registry.architectures.get("spacy-elmo.BiLM.v1")
    model = build(**tiny_config().to_dict(), batch_tokens=64)
    assert isinstance(model, Model) and model.get_dim("nO") == 12
    names = inspect.signature(build).parameters
    assert "hidden_dim" in names and "sizes" not in names
