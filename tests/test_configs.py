"""Every configuration loads as it is, and trains a step."""

from pathlib import Path

import pytest
import torch
from confection import Config
from spacy.cli.train import train

from spacy_elmo.bilm.kernels import check_training_precision
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.pretrain.loop import pretrain

ROOT = Path(__file__).parents[1]
# To copy, and those that the biLMs that ship were trained with.
CONFIGS = sorted((ROOT / "configs").glob("*.cfg"))
OF_MODELS = sorted((ROOT / "experiments" / "configs").glob("*.cfg"))
PIPELINES = [path for path in CONFIGS if not path.name.startswith("pretrain")]
PRETRAINING = [*(path for path in CONFIGS if path not in PIPELINES), *OF_MODELS]


def test_all_are_here():
    assert len(PIPELINES) >= 2 and len(PRETRAINING) >= 2 and OF_MODELS


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    import spacy
    from spacy.tokens import Doc, DocBin

    vocab = spacy.blank("en").vocab
    doc = Doc(vocab, words=["Ann", "sat"], tags=["N", "V"], ents=["B-PER", "O"])
    path = tmp_path_factory.mktemp("corpus") / "two.spacy"
    DocBin(docs=[doc] * 4).to_disk(path)
    return str(path)


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.stem)
def test_pipelines_train(path, corpus, tmp_path):
    overrides = {
        "paths.train": corpus,
        "paths.dev": corpus,
        "training.max_steps": 1,
        "training.eval_frequency": 1,
    }
    train(path, tmp_path, overrides=overrides)
    assert (tmp_path / "model-best" / "config.cfg").exists()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            p, id=p.stem, marks=() if p.stem == "pretrain_small" else pytest.mark.slow
        )
        for p in PRETRAINING
    ],
)
def test_pretraining_trains(path, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)  # the demo's goes on from the shipped model
    text = tmp_path / "text.txt"
    text.write_text("The cat sat on the mat. A dog barked all day.\n" * 12)
    files = {"text.train": [str(text)], "text.dev": [str(text)]}
    also = Config().from_disk(path)["text"].get("also", {})
    files |= {f"text.also.{name}": [str(text)] for name in also}
    training = Config().from_disk(path)["training"]
    if str(training.get("init")).startswith("training/"):  # that another one makes
        files["training.init"] = "en_elmo_sm"
    files["training.batch_size"] = min(64, training["batch_size"])
    try:
        cpu = torch.device("cpu")
        check_training_precision(training.get("precision", "float32"), cpu)
    except ValueError:  # this processor does not have it: no CPU has tf32
        files["training.precision"] = "float32"
    config = read_config(path, files)
    best = pretrain(config, tmp_path / "out")
    assert (best / "weights.safetensors").exists()
