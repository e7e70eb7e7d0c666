"""A path means what it meant when it was named, wherever the process works later.

In the folder that a process changes to, other files have the same names.
"""

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import spacy
from confection import Config

from spacy_elmo import BiLM, embed, models
from spacy_elmo.models.model_card import read_card
from spacy_elmo.pretrain import checkpoint
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.pretrain.loop import pretrain

from .cli.test_cli import run
from .models import tiny_config
from .pipelines import examples
from .pretrain import runs

TEXT = "Some words"
KO = models.MODELS["ko"]


@pytest.fixture(params=["empty", "other"])
def leave(request, tmp_path, monkeypatch):
    """Two folders with models of one shape: work in the first, and leave it when the
    fixture is called, for the second or for an empty one."""
    for seed, place in enumerate(("mine", "other")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "text.txt").write_text(f"The cat sat {seed}.\n" * 9)
        for name in ("elmo", "begin"):
            BiLM.random(tiny_config(), seed=seed).save(tmp_path / place / name)
    BiLM.random(tiny_config(), seed=7).save(tmp_path / "other" / KO)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    return lambda: os.chdir(tmp_path / request.param)


@pytest.fixture
def expected():
    return BiLM.random(tiny_config(), seed=0).encode([TEXT.split()])[0]


def built(**settings):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config=settings)
    return nlp


def layers(nlp):
    return nlp(TEXT)._.elmo.layers


def same(found, expected):
    return found.shape == expected.shape and np.allclose(found, expected, atol=1e-6)


def test_weights(leave, expected, tmp_path):
    read, saved, pickled = (built(weights="elmo") for _ in range(3))
    leave()
    assert same(layers(read), expected)
    saved.to_disk(tmp_path / "saved")
    assert same(layers(spacy.load(tmp_path / "saved")), expected)
    assert same(layers(pickle.loads(pickle.dumps(pickled))), expected)
    config = Config().from_disk(tmp_path / "saved" / "config.cfg")
    assert config["components"]["elmo"]["weights"] == "elmo"  # as it was named


def test_weights_of_a_shipped_name(leave):
    nlp = built(weights=KO)
    leave()
    assert nlp.get_pipe("elmo").fingerprint() == models.load("ko").fingerprint()


def test_words(leave, tmp_path):
    words = tmp_path / "mine" / "words.safetensors"
    shutil.copy(models.find("en_elmo_sm") / words.name, words)
    tok2vec = {"@architectures": "spacy-elmo.Words.v1", "weights": words.name}
    model = {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}
    nlp = spacy.blank("xx")
    nlp.add_pipe("tagger", config={"model": model})
    leave()
    nlp.initialize(lambda: examples(nlp))
    assert nlp("I like Paris")[0].tag_


def test_what_initialize_names(leave, expected):
    nlp = built(weights="begin")
    readers = spacy.registry.readers.get("spacy-elmo.WeightsReader.v1")
    reader, shipped = readers("elmo"), readers(KO)
    leave()
    nlp.get_pipe("elmo").initialize(lambda: examples(nlp), weights=reader)
    assert same(layers(nlp), expected)
    assert shipped().config.hidden_dim == models.load("ko").config.hidden_dim


@pytest.mark.parametrize("where", ["layers", "memory"])
def test_layer_cache(leave, where, tmp_path):
    nlp, direct = built(weights="elmo"), built(weights="elmo")
    use = spacy.registry.callbacks.get("spacy-elmo.UseLayerCache.v1")(where)
    direct.get_pipe("elmo").use_layer_cache(where)
    leave()
    for each in (use(nlp), direct):
        layers(each)
    assert (tmp_path / "mine" / "layers").exists() == (where == "layers")
    assert not (tmp_path / "other" / "layers").exists()


@pytest.mark.parametrize("prepared", [False, True])
def test_pretrain(leave, prepared, tmp_path):
    """All paths of a configuration and of the call; the card has what was written."""
    runs.write_text(tmp_path / "mine")
    if prepared:
        runs.prepare_text(tmp_path / "mine")
        for name in ("train", "dev"):
            (tmp_path / "mine" / f"{name}.txt").unlink()
    ending = "" if prepared else ".txt"
    text = runs.without_model(runs.CONFIG.replace(".txt", ending))
    (tmp_path / "mine" / "run.cfg").write_text(text.format(folder="."))
    overrides = {"training.init": "begin", "training.max_steps": 2}
    config = read_config(Path("run.cfg"), overrides)
    leave()
    best = pretrain(config, tmp_path / "out")
    start = BiLM.random(tiny_config(), seed=0).fingerprint()
    card = read_card(best)
    assert card["started_from"]["weights"] == "begin"
    assert card["text"]["files"] == [f"./train{ending}"]
    assert card["config"]["training"]["init"] == "begin"
    assert card["parameters"] == BiLM.load(tmp_path / "mine" / "begin").n_parameters
    saved = checkpoint.read_progress(tmp_path / "out")
    assert saved["init"] == start


def test_an_output_folder(leave, tmp_path):
    """A logger of the user's changes the folder while it trains."""
    runs.write_text(tmp_path / "mine")
    (tmp_path / "mine" / "run.cfg").write_text(runs.CONFIG.format(folder="."))

    @spacy.registry.loggers("test.Leaves.v1")
    def make():
        def setup(nlp, stdout=None, stderr=None):
            return lambda info: leave(), lambda: None

        return setup

    logger = {"training.logger": {"@loggers": "test.Leaves.v1"}}
    config = runs.config(
        tmp_path / "mine", overrides={"training.max_steps": 12}, **logger
    )
    best = pretrain(config, Path("out"))
    assert BiLM.load(best)
    assert (tmp_path / "mine" / "out" / "model-last" / "weights.safetensors").exists()
    assert not (tmp_path / "other" / "out").exists()


def test_embed(leave, expected, tmp_path):
    for model, output in (("elmo", "vectors"), (KO, "shipped")):
        embed.make_plan(model, ["text.txt"], output)
    shutil.copytree("vectors", "begun")
    embed.run("vectors")
    corpus = embed.open("vectors")
    dataset = corpus.torch_dataset()
    leave()
    first = BiLM.random(tiny_config(), seed=0).encode([corpus[0].tokens])[0].mean(0)
    assert same(corpus[0].vectors, first)
    assert same(dataset[0].numpy(), first)
    embed.run(tmp_path / "mine" / "shipped")
    embed.run(tmp_path / "mine" / "begun")
    assert same(embed.open(tmp_path / "mine" / "begun")[0].vectors, first)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder with a model and a text; another folder is the working folder."""
    for name in ("home", "here"):
        (tmp_path / name).mkdir()
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    BiLM.random(tiny_config(), seed=0).save(tmp_path / "home" / "elmo")
    (tmp_path / "home" / "text.txt").write_text("The cat sat.\n" * 9)
    monkeypatch.chdir(tmp_path / "here")
    yield tmp_path / "home"
    assert not any((tmp_path / "here").iterdir())  # no folder of the name "~"


def test_the_home_folder_of_a_component(home, expected):
    nlp = built(weights="~/elmo")
    assert same(layers(nlp), expected)
    elmo = nlp.get_pipe("elmo")
    elmo.load_weights("~/elmo")
    assert nlp.meta["elmo"]["elmo"]["weights"] == "elmo"
    elmo.use_layer_cache("~/layers")
    assert (home / "layers").exists()


def test_the_home_folder_of_readers(home, expected):
    nlp = built(weights="~/elmo")
    reader = spacy.registry.readers.get("spacy-elmo.WeightsReader.v1")("~/elmo")
    nlp.get_pipe("elmo").initialize(lambda: examples(nlp), weights=reader)
    assert same(layers(nlp), expected)
    spacy.registry.callbacks.get("spacy-elmo.UseLayerCache.v1")("~/layers")(nlp)
    assert (home / "layers").exists()


def test_the_home_folder_of_models_and_vectors(home, expected):
    BiLM.load("~/elmo").save("~/copy")
    assert models.find("~/copy") == home / "copy"
    embed.make_plan("~/copy", ["~/text.txt"], "~/vectors")
    embed.run("~/vectors")
    assert not embed.verify("~/vectors").problems
    embed.export("~/vectors", "~/vectors.hdf5", "hdf5")
    assert len(embed.open("~/vectors")) == 9 and (home / "vectors.hdf5").is_file()


def test_the_home_folder_of_a_training(home):
    text = runs.without_model(runs.CONFIG.format(folder="~"))
    text = text.replace("train.txt", "text.txt").replace("dev.txt", "text.txt")
    (home / "run.cfg").write_text(text)
    overrides = {"training.init": "~/elmo", "training.max_steps": 1}
    best = pretrain(read_config(Path("~/run.cfg"), overrides), Path("~/out"))
    assert best == home / "out" / "model-best"
    assert read_card(best)["started_from"]["weights"] == "elmo"


def test_the_home_folder_of_commands(home):
    """`--output=~/x` reaches a command as it is written: no shell expands it."""
    prepared = ["prepare", "~/text.txt", "--output=~/prepared", "--silent"]
    converted = ["convert", "~/elmo", "~/converted"]
    written = ["init-config", "~/ner.cfg", "--weights=~/elmo"]
    for arguments in (prepared, converted, written):
        run(*arguments)
    for arguments in (converted, written):
        assert "EL130" in run(*arguments, fails=True)
    for name in ("prepared", "converted", "ner.cfg"):
        assert (home / name).exists()
