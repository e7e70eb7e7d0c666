"""Runs that can't be made: no GPU, too little text, broken gradients."""

import math

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.models import read_card
from spacy_elmo.pretrain import checkpoint, loop
from spacy_elmo.pretrain.loop import pretrain

from .runs import CONFIG, config


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("number", [0, 256, 10**20])
def test_no_gpu(folder, number):
    overrides = {"training.device": f"cuda:{number}"}
    with pytest.raises(ValueError, match=rf"EL037.*device {number} is no GPU"):
        pretrain(config(folder, overrides=overrides), folder / "out")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_card_has_the_fingerprint_of_what_was_saved(folder, dtype):
    overrides = {"training.save_dtype": dtype}
    best = pretrain(config(folder, overrides=overrides), folder / "out")
    assert read_card(best)["fingerprint"] == BiLM.load(best).fingerprint()


def test_empty_text(folder):
    (folder / "train.txt").write_text(" \n\n\t\n")
    with pytest.raises(ValueError, match="EL033"):
        pretrain(config(folder), folder / "out")
    assert not (folder / "out" / "model-last").exists()


def test_text_smaller_than_the_batch(folder):
    (folder / "train.txt").write_text("too short")
    with pytest.raises(ValueError, match=r"EL035.*batch_size of at most 3"):
        pretrain(config(folder), folder / "out")


def test_dev_text_without_a_known_word(folder):
    (folder / "dev.txt").write_text("전혀 다른 말\n" * 9)
    with pytest.raises(ValueError, match="EL017"):
        pretrain(config(folder), folder / "out")


def test_a_vocabulary_without_words(folder):
    with pytest.raises(ValueError, match=r"EL017.*size and min_count in \[vocab\]"):
        pretrain(config(folder, overrides={"vocab.size": 3}), folder / "out")


def test_vocabulary_smaller_than_the_samples(folder):
    objective = {"@objectives": "spacy-elmo.SampledSoftmax.v1", "samples": 8192}
    with pytest.raises(ValueError, match=r"EL045.*11 words for 8,192"):
        pretrain(config(folder, **{"training.objective": objective}), folder / "out")


@pytest.mark.parametrize(
    "step", [33, *(pytest.param(step, marks=pytest.mark.slow) for step in (20, 40))]
)
def test_broken_gradient_keeps_the_last_good_checkpoint(folder, monkeypatch, step):
    """Wherever it comes, at a save too; the run goes on from before."""
    pretrain(config(folder), folder / "whole")
    real, n_steps = loop.clip_gradients, []

    def broken(parameters, max_norm):
        n_steps.append(1)
        parameters = list(parameters)
        if len(n_steps) == step:
            parameters[0].grad.fill_(math.nan)
        return real(parameters, max_norm)

    monkeypatch.setattr(loop, "clip_gradients", broken)
    with pytest.raises(ValueError, match="EL038"):
        pretrain(config(folder), folder / "out")
    assert checkpoint.read_progress(folder / "out")["step"] == (step - 1) // 10 * 10
    monkeypatch.undo()
    pretrain(config(folder), folder / "out")
    one, other = (
        (folder / name / "model-last" / "weights.safetensors").read_bytes()
        for name in ("out", "whole")
    )
    assert one == other


def test_learning_rate_far_too_high(folder):
    text = CONFIG.split("[training.optimizer]")[0]
    optimizer = {"@optimizers": "spacy-elmo.SGD.v1", "learn_rate": 1e30}
    overrides = {"training.clip_norm": 1e30}
    sections = {"training.optimizer": optimizer}
    with pytest.raises(ValueError, match="EL038"):
        pretrain(config(folder, text, overrides, **sections), folder / "out")
    assert not (folder / "out" / "model-last").exists()


def test_gpu_that_is_too_small(folder, monkeypatch):
    def too_much(*args, **kwargs):
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(loop, "clip_gradients", too_much)
    with pytest.raises(MemoryError, match=r"EL076.*accumulate"):
        pretrain(config(folder), folder / "out")
