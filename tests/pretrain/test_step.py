"""A training step asks nothing of the device, and copies only what it must to it."""

from contextlib import nullcontext, suppress

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.objectives import AdaptiveSoftmax
from spacy_elmo.machine import transfer
from spacy_elmo.pretrain import optimizers
from spacy_elmo.pretrain.config import TrainingConfig
from spacy_elmo.pretrain.loop import train_step
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.pretrain.optimizers import OptimizerRecipe, adagrad, adam, muon, sgd
from spacy_elmo.registry import registry
from spacy_elmo.text.corpus import build_corpus
from spacy_elmo.text.streams import Streams

from ..fake_gpu import Waits
from ..models import tiny_config
from .runs import OBJECTIVES, TEXT


def not_fused(*args, fused):
    return torch.optim.Adam(*args)


@pytest.fixture
def no_autocast(monkeypatch):
    """A device without data has none."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)


def one_step(objective, recipe, device, precision="float32", **training):
    corpus = build_corpus(TEXT, vocab_size=9)
    bilm = BiLM.random(tiny_config(), vocab=corpus.vocab)
    torch.manual_seed(0)
    make = registry.resolve(OBJECTIVES[objective])["training.objective"]
    softmax = make(bilm.config.projection_dim, len(corpus.vocab))
    model = LanguageModel(bilm, softmax, dropout=0.1).train().to(device)
    streams = [Streams(corpus, bilm, 4, 6, rows) for rows in (range(2), range(2, 4))]
    states = [model.bilm.zero_state(2) for _ in streams]
    named = {
        f"{part}.{name}": p
        for part in ("bilm", "softmax")
        for name, p in getattr(model, part).named_parameters()
    }
    is_sparse = model.softmax.sparse_gradients
    sparse = {n for n in named if is_sparse and n.startswith("softmax")}
    made = recipe.make(
        {n: p for n, p in named.items() if n not in sparse},
        {n: p for n, p in named.items() if n in sparse},
    )
    settings = TrainingConfig(precision=precision, **training)
    batches = [part.batch(0) for part in streams]

    def step():
        return train_step(model, made, batches, states, settings, step=3)

    return model, step


@pytest.mark.parametrize("recipe", [adam, adagrad, sgd, muon])
@pytest.mark.parametrize("objective", ["full", "adaptive"])
def test_a_step_does_not_wait_for_the_device(
    objective, recipe, no_autocast, monkeypatch
):
    if recipe in (adam, muon):  # the fused kernel has no form for a meta device
        monkeypatch.setattr(optimizers, "Adam", not_fused)
    _, step = one_step(objective, recipe(), "meta")
    with Waits() as waits:
        figures, norm = step()
    assert waits.found == []
    assert figures.is_meta and norm.is_meta


def test_a_step_of_the_sampled_softmax_does_not_wait_for_the_device(no_autocast):
    """As far as a device without data goes: its optimizers' sparse parts do not."""
    nothing = OptimizerRecipe(lambda dense, sparse: [], 0)
    _, step = one_step("sampled", nothing, "meta")
    with Waits() as waits:
        step()
    assert waits.found == []


def test_every_objective_is_tested():
    names = [each["training.objective"]["@objectives"] for each in OBJECTIVES.values()]
    ours = [n for n in registry.objectives.get_all() if n.startswith("spacy-elmo.")]
    assert sorted(names) == sorted(ours)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_step_of_gradient_descent_is_as_long_as_clip_norm(objective):
    """At a rate of 1, where the gradient is longer."""
    model, step = one_step(objective, sgd(learn_rate=1.0), "cpu", clip_norm=0.125)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    _, norm = step()
    moves = [(p.detach() - b).flatten() for p, b in zip(model.parameters(), before)]
    assert float(norm) > 0.25
    assert float(torch.cat(moves).norm()) == pytest.approx(0.125, rel=1e-4)


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.copy_(torch.ones(1)),
        lambda x: torch.ones(3).to("meta"),
        lambda x: x.cpu(),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        float,
    ],
)
def test_what_waits_is_found(wait):
    with Waits() as waits, suppress(NotImplementedError, RuntimeError):
        wait(torch.ones(1, device="meta"))
    assert waits.found


def test_what_comes_to_a_gpu_was_pinned_and_is_not_waited_for(monkeypatch):
    calls = []
    monkeypatch.setattr(
        torch.Tensor, "pin_memory", lambda self: calls.append("pinned") or self
    )
    monkeypatch.setattr(
        torch.Tensor, "to", lambda self, *a, **k: calls.append((*a, k)) or self
    )
    gpu = torch.device("cuda")
    transfer.to_device(np.arange(3), gpu)
    assert calls == ["pinned", (gpu, {"non_blocking": True})]


@pytest.mark.parametrize("n", [0, 1, 2, 30])
@pytest.mark.parametrize("chunk", [40, 1 << 20])
def test_clusters_found_on_the_host_give_the_bits_of_torch(n, chunk, monkeypatch):
    few = transfer.CPU_BATCH_LIMITS._replace(logits=chunk)
    monkeypatch.setattr(transfer, "CPU_BATCH_LIMITS", few)
    torch.manual_seed(0)
    softmax = AdaptiveSoftmax(16, 20, [4, 9])
    h, target = torch.randn(n, 16, requires_grad=True), torch.randint(20, (n,))
    size = max(1, chunk // softmax.logits_per_prediction)
    parts = zip(h.split(size), target.split(size))
    expected = torch.cat([softmax.clusters(a, b).output for a, b in parts])
    known = softmax.prepare(target.numpy(), h.device)
    leaves = [h, *softmax.parameters()]
    theirs = torch.autograd.grad(expected.sum(), leaves, allow_unused=True)
    for found in (softmax(h, target), softmax(h, target, known)):
        assert torch.equal(found, expected)
        ours = torch.autograd.grad(found.sum(), leaves, allow_unused=True)
        for a, b in zip(ours, theirs):
            assert (a is None and b is None) or torch.equal(a, b)
