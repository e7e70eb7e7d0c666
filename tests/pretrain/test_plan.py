"""What a run is expected to take."""

import re
from dataclasses import replace

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.objectives import AdaptiveSoftmax, FullSoftmax, SampledSoftmax
from spacy_elmo.pretrain import loop, start
from spacy_elmo.pretrain import memory as module
from spacy_elmo.pretrain.checkpoint import read_progress
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.pretrain.loop import Stopped
from spacy_elmo.pretrain.memory import (
    Plan,
    available_memory,
    check_fits,
    gigabytes,
)
from spacy_elmo.pretrain.model import LanguageModel

from .runs import interrupt_at, write_config, write_text

GB = 1 << 30


def plan(n_words=50_000, n_streams=64, softmax=FullSoftmax, *args):
    config = BiLMConfig()
    with torch.device("meta"):
        bilm = BiLM(config, vocab=[""] * n_words)
        made = softmax(config.projection_dim, n_words, *args)
    model = LanguageModel(bilm, made)
    return Plan(model, n_streams=n_streams, unroll_steps=20, moments=2)


def test_more_takes_more():
    assert plan(n_streams=128).memory() > plan().memory() > plan(n_streams=8).memory()
    assert plan(n_words=800_000).memory() > plan().memory() + 1.2 * GB
    cheap = plan(800_000, 64, SampledSoftmax, 8192).memory()
    assert cheap < plan(800_000).memory()
    clusters = plan(800_000, 64, AdaptiveSoftmax, [30_000, 200_000]).memory()
    assert clusters < plan(800_000).memory()


def test_what_does_not_fit_is_refused_with_what_does():
    big = plan(n_streams=4096)
    for available in (2 * GB, 3 * GB):
        with pytest.raises(ValueError, match=r"EL048.*batch_size of (\d+)") as raised:
            check_fits(big, available)
        fits = int(re.search(r"batch_size of (\d+)", str(raised.value))[1])
        check_fits(plan(n_streams=fits), available)
        with pytest.raises(ValueError, match="EL048"):
            check_fits(plan(n_streams=fits + 1), available)
    check_fits(big, 60 * GB)


def test_vocabulary_that_does_not_fit():
    big = plan(n_words=5_000_000)
    with pytest.raises(ValueError, match=r"EL048.*vocabulary of ([\d,]+)") as raised:
        check_fits(big, 2 * GB)
    fits = re.search(r"vocabulary of ([\d,]+)", str(raised.value))[1]
    n_words = int(fits.replace(",", ""))
    assert 100_000 < n_words < 5_000_000
    check_fits(plan(n_words=n_words, n_streams=1), 2 * GB)


def test_advice_can_be_followed():
    """accumulate divides the batch."""
    big = plan(n_streams=4096)
    for available in (2 * GB, 3 * GB):
        with pytest.raises(ValueError, match="EL048") as raised:
            check_fits(big, available)
        parts = int(re.search(r"accumulate multiplied by (\d+)", str(raised.value))[1])
        assert 4096 % parts == 0
        check_fits(plan(n_streams=4096 // parts), available)
    with pytest.raises(ValueError, match=r"EL048.*\[model\]"):
        check_fits(big, 1 << 20)


def test_processes_share_the_memory():
    one = plan()
    check_fits(one, one.memory())
    with pytest.raises(ValueError, match="EL048"):
        check_fits(one, one.memory(), 2)


def test_a_run_is_refused_before_it_starts(tmp_path, monkeypatch):
    write_text(tmp_path)
    monkeypatch.setattr(start, "available_memory", lambda device: 1 << 20)
    with pytest.raises(ValueError, match="EL048"):
        loop.pretrain(read_config(write_config(tmp_path)), tmp_path / "out")
    assert not (tmp_path / "out" / "log.jsonl").exists()


def test_a_bilm_that_no_memory_holds_is_refused_before_it_is_drawn(tmp_path):
    write_text(tmp_path)
    path, sizes = write_config(tmp_path), {"model.hidden_dim": 10_000_000}
    with pytest.raises(ValueError, match=r"EL048.*\[model\]"):
        loop.pretrain(read_config(path, sizes), tmp_path / "out")


def test_a_run_that_fits_is_not_refused_when_it_resumes(tmp_path, monkeypatch):
    """What it has taken itself by then is not missing from the memory that is free."""
    write_text(tmp_path)
    config = read_config(write_config(tmp_path), {"training.max_steps": 20})
    plans, models, real, to = [], [], start.check_fits, LanguageModel.to

    def check(plan, available, n_processes):
        plans.append(plan)
        real(plan, available, n_processes)

    def moved(model, device):
        models.append(model)
        return to(model, device)

    monkeypatch.setattr(start, "check_fits", check)
    monkeypatch.setattr(LanguageModel, "to", moved)
    loop.pretrain(config, tmp_path / "probe")
    plan = plans[0]
    models.clear()

    def available(device):
        """All that a run needs, less the weights of models that are on the device."""
        return plan.memory() - plan.weights() * len(models)

    monkeypatch.setattr(start, "available_memory", available)
    with monkeypatch.context() as stopping:
        interrupt_at(stopping, 9)
        with pytest.raises(Stopped):
            loop.pretrain(config, tmp_path / "out")
    assert read_progress(tmp_path / "out")["step"] == 10
    models.clear()
    loop.pretrain(config, tmp_path / "out")
    assert read_progress(tmp_path / "out")["step"] == 20
    assert len(plans) == 3 and len(models) == 1


def test_a_checkpoint_on_its_way_counts():
    """A sampled softmax of many words, whose batches are small."""
    large = plan(5_000_000, 8, SampledSoftmax, 8192)
    numbers = 3 * sum(p.numel() for p in large.model.parameters())
    assert large.memory() > large.weights() + 2 * 4 * numbers
    on_gpu = replace(large, on_gpu=True)
    assert on_gpu.memory() < large.memory() - 4 * numbers


def test_memory_of_a_container(tmp_path, monkeypatch):
    """Files that can be read again are not counted as in use."""
    monkeypatch.setattr(module, "CGROUP", tmp_path)
    free = available_memory(torch.device("cpu"))
    for name, n in (("memory.max", 9 << 20), ("memory.current", 8 << 20)):
        (tmp_path / name).write_text(f"{n}\n")
    (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {5 << 20}\n")
    assert available_memory(torch.device("cpu")) == 6 << 20
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory(torch.device("cpu")) == pytest.approx(free, rel=0.2)


def test_memory_of_this_machine():
    found = available_memory(torch.device("cpu"))
    assert 1 << 28 < found < 1 << 50


def test_spelled_for_people():
    assert gigabytes(1.5 * GB) == "1.5 GB"
