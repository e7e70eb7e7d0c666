"""Where `spacy elmo init-config` writes to, and what it says."""

import shutil
import warnings

import pytest
import spacy
from confection import Config
from spacy.training import Example
from spacy.util import load_config_from_str

from experiments.table import find_experiment, find_setup, find_task
from experiments.train import Run
from spacy_elmo import models as shipped
from spacy_elmo.words import FILE

from ..conftest import ROOT
from ..words import tiny_encoder
from .test_cli import run


def test_to_stdout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = run("init-config", "-", "--pipeline", "tagger")
    assert Config().from_str(text)["nlp"]["pipeline"] == ["elmo", "tagger"]
    assert list(tmp_path.iterdir()) == []


def test_into_a_new_folder_with_a_command_to_paste(tmp_path):
    path = tmp_path / "new folder" / ("long" * 20 + ".cfg")
    lines = run("init-config", path).splitlines()
    assert Config().from_disk(path)["nlp"]["lang"] == "en"
    command = f"python -m spacy train '{path}' --paths.train train.spacy "
    assert lines[-1] == command + "--paths.dev dev.spacy --output training"


@pytest.mark.parametrize("name", ["ner", "tagger"])
def test_configs_of_the_repository_are_what_it_writes(name):
    path = ROOT / "configs" / f"{name}_elmo.cfg"
    text = run("init-config", "-", "--pipeline", name)
    assert path.read_text(encoding="utf-8") == text


def test_budget_is_that_of_the_documented_results():
    """The file and the command of the table train the same."""
    written = Config().from_str(run("init-config", "-", "--pipeline", "ner"))
    main = find_experiment("words")
    measured = Run(main, find_task("ewt-ner"), find_setup("words"), seed=0)
    table = load_config_from_str(measured.config(), overrides=measured.overrides())
    for part in ("nlp", "components", "training"):
        assert table.interpolate()[part] == written.interpolate()[part]
    assert written["training"]["max_steps"] == main.steps == 2000
    rate = written.interpolate()["training"]["optimizer"]["learn_rate"]
    assert rate["total_steps"] == 2000 and rate["initial_rate"] == 0.004


def test_optimizer_is_made_without_a_training_run():
    """As `spacy debug data` and `nlp.resume_training` do."""
    config = Config().from_str(run("init-config", "-", "--pipeline", "ner"))
    nlp = spacy.util.load_model_from_config(config)
    optimizer = nlp.create_optimizer()
    optimizer.step_schedules()
    assert 0 < optimizer.learn_rate < 0.004


def test_sentences_are_found_before_they_are_read():
    config = Config().from_str(run("init-config", "-", "-p", "ner,sentencizer"))
    assert config["nlp"]["pipeline"] == ["sentencizer", "elmo", "ner"]
    assert config["training"]["annotating_components"] == ["sentencizer"]
    nlp = spacy.util.load_model_from_config(config)
    doc, alone = (
        nlp(text, disable=["ner"]) for text in ("We saw it. They left.", "They left.")
    )
    assert abs(doc.tensor[4:] - alone.tensor).max() < 1e-5


@pytest.mark.parametrize(
    ("pipeline", "weights"),
    [
        ("sentencizer,ner", {"ents_f": 1.0, "sents_f": None}),
        ("sentencizer,tagger,ner", {"ents_f": 0.5, "tag_acc": 0.5, "sents_f": None}),
        ("sentencizer,senter", {"sents_f": 1.0}),
    ],
)
def test_the_score_of_training_is_of_what_is_trained(pipeline, weights):
    """A sentencizer learns nothing, so its boundaries count for nothing."""
    config = Config().from_str(run("init-config", "-", "-p", pipeline))
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    found = nlp.config["training"]["score_weights"]
    assert {name: found[name] for name in weights} == weights
    assert sum(weight or 0.0 for weight in found.values()) == 1.0


def test_vectors_of_words_stand_beside_the_components_own(tmp_path):
    tiny_encoder().save(tmp_path)
    text = run("init-config", "-", "--pipeline", "ner", "--words", tmp_path)
    tok2vec = Config().from_str(text)["components"]["ner"]["model"]["tok2vec"]
    words = tok2vec["embed"]
    assert words["@architectures"] == "spacy-elmo.Words.v1"
    assert words["weights"] == str(tmp_path)
    without = Config().from_str(
        run("init-config", "-", "--pipeline", "ner", "--words", "none")
    )
    tok2vec["embed"] = words["embed"]
    assert tok2vec == without["components"]["ner"]["model"]["tok2vec"]
    nlp = spacy.util.load_model_from_config(Config().from_str(text))
    nlp.initialize(lambda: [example(nlp)])
    assert len(nlp("We saw Kim in abc .")) == 6


def example(nlp):
    return Example.from_dict(nlp.make_doc("We saw Kim"), {"entities": [(7, 10, "PER")]})


def test_words_that_ship_are_written_where_their_bilm_is(tmp_path):
    for arguments, has_words in (
        (["--lang", "en"], (shipped.FOLDER / "en_elmo_sm" / FILE).exists()),
        (["--lang", "ko"], False),
        (["--weights", "ko_elmo_sm"], False),
    ):
        text = run("init-config", "-", "--pipeline", "ner", *arguments)
        assert ("spacy-elmo.Words.v1" in text) == has_words


def test_into_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    assert "EL013" in run("init-config", tmp_path / "file" / "a.cfg", fails=True)


def test_over_a_file(tmp_path):
    path = tmp_path / "a.cfg"
    path.write_text("mine")
    assert "EL130" in run("init-config", path, fails=True)
    run("init-config", path, "--force")
    assert "[components.elmo]" in path.read_text(encoding="utf-8")


def test_sizes_of_published_weights_are_read_without_them(tiny, tmp_path):
    tiny.save(tmp_path / "tf", format="bilm-tf")
    for name in ("options.json", "weights.hdf5"):
        (tmp_path / "tf" / name).rename(tmp_path / "tf" / f"elmo_tiny_{name}")
    text = run("init-config", "-", "--weights", tmp_path / "tf", "--finetune")
    config = Config().from_str(text)
    elmo = config["components"]["elmo"]
    assert elmo["weights"] == str(tmp_path / "tf") and elmo["model"]["hidden_dim"] == 12
    assert config["initialize"]["components"]["elmo"]["weights"]["path"] is None
    nlp = spacy.util.load_model_from_config(config)
    batch = [Example.from_dict(nlp.make_doc("cat"), {"tags": ["N"]})]
    for _ in range(2):  # the second time it has learned
        optimizer = nlp.initialize(lambda: batch)
        assert nlp.get_pipe("elmo").fingerprint() == tiny.fingerprint()
        for _ in range(3):
            nlp.update(batch, sgd=optimizer)
    shutil.rmtree(tmp_path / "tf")
    spacy.util.load_model_from_config(config)  # the weights are read when needed
    assert "EL001" in run("init-config", "-", "--weights", tmp_path / "tf", fails=True)


def test_layer_cache_of_a_bilm_that_is_trained_is_left_out_and_said():
    for options in (["--finetune"], ["--finetune", "--layer-cache", "none"], []):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            text = run("init-config", "-", *options)
        initialize = Config().from_str(text)["initialize"]["components"]["elmo"]
        assert initialize["layer_cache"] == (None if options else "memory")
    with pytest.warns(UserWarning, match=r"ELW24.*frozen = false"):
        text = run("init-config", "-", "--finetune", "--layer-cache", "memory")
    assert "layer_cache = null" in text
