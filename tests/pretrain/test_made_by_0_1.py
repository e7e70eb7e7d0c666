"""What version 0.1.0 made goes on: checkpoints, prepared text, configs, softmaxes."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from spacy_elmo.pretrain import checkpoint
from spacy_elmo.pretrain.config_file import read_config
from spacy_elmo.pretrain.loop import pretrain
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text.corpus import build_corpus
from spacy_elmo.text.shards import manifest_hash, open_corpus

MADE = Path(__file__).parent / "made_by_0_1"  # by its make.py
RUNS = ["adaptive", "sampled_adam", "sampled_adagrad", "full_sgd"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    shutil.copytree(MADE, tmp_path / "made")
    monkeypatch.chdir(tmp_path / "made")  # the configurations name files below it
    return tmp_path / "made"


@pytest.mark.parametrize("name", RUNS)
def test_a_run_ends_as_it_would_have(folder, name):
    expected = load_file(f"{name}.expected.safetensors")
    assert checkpoint.read_progress(folder / name)["step"] == 34
    pretrain(read_config(Path(f"{name}.cfg")), folder / name)
    last = folder / name / "model-last"
    for part in ("weights", "softmax"):
        for key, array in load_file(last / f"{part}.safetensors").items():
            wanted = expected.pop(f"{part}.{key}")
            assert (array - wanted).abs().max() <= 1e-6 * wanted.abs().max(), key
    assert not expected
    assert checkpoint.read_progress(folder / name)["step"] == 69


def test_another_configuration_is_still_refused(folder):
    config = read_config(Path("adaptive.cfg"), {"training.dropout": 0.5})
    with pytest.raises(ValueError, match=r"EL047.*training.dropout was 0.1 and is 0.5"):
        pretrain(config, folder / "adaptive")


def test_prepared_text_is_read(folder):
    corpus = open_corpus(folder / "prepared" / "train")
    lines = [line.split() for line in (folder / "text" / "train.txt").open()]
    built = build_corpus(lines, vocab_size=40)
    assert corpus.vocab == built.vocab and corpus.n_tokens == built.n_tokens == 352
    for direction in ("forward", "backward"):
        mapped, made = getattr(corpus, direction), getattr(built, direction)
        assert (mapped.read(0, len(mapped)) == made.read(0, len(made))).all()
    saved = checkpoint.read_progress(folder / "full_sgd")["identity"]
    assert saved["text of train"] == manifest_hash(folder / "prepared" / "train")


@pytest.mark.parametrize(
    ("name", "softmax"),
    [("adaptive", "adaptive softmax, cut at 5"), ("sampled_adam", "full softmax")],
)
def test_a_run_begins_from_a_model_with_its_softmax(folder, name, softmax):
    model = LanguageModel.load(folder / name / "model-best")
    assert model.softmax.describe() == softmax
    text = Path(f"{name}.cfg").read_text()
    text = text.split("[model]")[0] + "[training]" + text.split("[training]", 1)[1]
    Path("on.cfg").write_text(text)
    init = {"training.init": f"{name}/model-best", "training.max_steps": 3}
    best = pretrain(read_config(Path("on.cfg"), init), folder / "on")
    assert torch.isfinite(LanguageModel.load(best).softmax.vectors()).all()
