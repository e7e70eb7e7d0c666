"""Optimizers: that whole runs learn with each, that they are torch's own, and how
gradients are clipped."""

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.objectives.full import FullSoftmax
from spacy_elmo.bilm.objectives.sampled import SampledSoftmax
from spacy_elmo.pretrain import optimizers as muons
from spacy_elmo.pretrain.loop import pretrain
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.pretrain.optimizers import (
    BatchedMuon,
    Float32Muon,
    adam,
    clip_gradients,
    muon,
)
from spacy_elmo.pretrain.start import start_model
from spacy_elmo.pretrain.workers import ALONE

from ..models import tiny_config
from .runs import CONFIG, SAMPLED, config, log


@pytest.mark.parametrize(
    "optimizer",
    [
        {"@optimizers": "spacy-elmo.Adam.v1", "learn_rate": 0.01, "weight_decay": 0.1},
        {"@optimizers": "spacy-elmo.Adagrad.v1"},
        {"@optimizers": "spacy-elmo.SGD.v1"},
        {"@optimizers": "spacy-elmo.Muon.v1", "learn_rate": 0.01},
    ],
    ids=["AdamW", "Adagrad", "SGD", "Muon"],
)
@pytest.mark.parametrize(
    "objective",
    [{}, pytest.param(SAMPLED, marks=pytest.mark.slow)],
    ids=["full", "sampled"],
)
def test_every_optimizer_learns(folder, optimizer, objective):
    text = CONFIG.split("[training.optimizer]")[0]
    sections = {"training.optimizer": optimizer, **objective}
    settings = config(folder, text, **sections)
    pretrain(settings, folder / "out")
    losses = [row["loss"] for row in log(folder / "out")]
    assert losses[-1] < losses[0] - 0.1
    model = LanguageModel.load(folder / "out" / "model-last")
    first, _ = start_model(settings, model.bilm.vocab, ALONE)
    after = dict(model.named_parameters())
    for name, parameter in first.named_parameters():
        assert turned(parameter.detach(), after[name].detach()) > 5e-3, name


def turned(before, after):
    """How far numbers have moved, other than towards zero as those that decay."""
    kept = (before * after).sum() / (before * before).sum().clamp(min=1e-9)
    return (after - kept * before).abs().max()


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_adam_is_that_of_pytorch_with_every_setting(weight_decay):
    """Its sparse rows too, of which one is not used each time."""
    torch.manual_seed(0)
    start = torch.randn(4, 3), torch.randn(6, 3)
    steps = [(torch.randn(4, 3), torch.randn(6, 3)) for _ in range(4)]
    settings = {"betas": (0.6, 0.7), "eps": 0.05}
    dense, sparse, *theirs = (torch.nn.Parameter(w.clone()) for w in (*start, *start))
    ours = adam(0.1, 0.6, 0.7, 0.05, weight_decay).make({"a": dense}, {"b": sparse})
    kind = torch.optim.AdamW if weight_decay else torch.optim.Adam
    expected = (
        kind(theirs[:1], 0.1, weight_decay=weight_decay, **settings),
        torch.optim.SparseAdam(theirs[1:], 0.1, **settings),
    )
    for step, (gradient, rows) in enumerate(steps):
        rows[step] = 0
        dense.grad, theirs[0].grad = gradient.clone(), gradient.clone()
        sparse.grad, theirs[1].grad = rows.to_sparse(1), rows.to_sparse(1)
        for optimizer in (*ours, *expected):
            optimizer.step()
    for found, wanted in zip((dense, sparse), theirs, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("share", [0.01, 0.5, 2.0], ids=["far", "above", "below"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_gradients_are_clipped_as_by_pytorch(is_sparse, share):
    """Those of a sampled softmax's rows too, summed over two parts of a batch."""
    torch.manual_seed(0)
    softmax = SampledSoftmax(6, 30, 4) if is_sparse else FullSoftmax(6, 30)
    layer, unused = torch.nn.Linear(5, 6), torch.nn.Parameter(torch.ones(2))
    parts = torch.tensor([1, 3, 3, 20]), torch.tensor([3, 0, 20, 29])
    softmax.train().begin_step(0, 0, torch.cat(parts).numpy())
    for target in parts:
        (-softmax(layer(torch.randn(4, 5)), target).sum()).backward()
    parameters = [unused, *layer.parameters(), *softmax.parameters()]
    assert [p.grad.is_sparse for p in parameters[3:]] == [is_sparse] * 2
    copies = [torch.nn.Parameter(p.detach().clone()) for p in parameters]
    for copy, parameter in zip(copies[1:], parameters[1:], strict=True):
        copy.grad = parameter.grad.to_dense().clone()
    whole = float(torch.cat([c.grad.flatten() for c in copies[1:]]).norm())
    expected = torch.nn.utils.clip_grad_norm_(copies, share * whole)
    assert float(expected) == pytest.approx(whole)
    assert float(clip_gradients(parameters, share * whole)) == pytest.approx(whole)
    for copy, parameter in zip(copies[1:], parameters[1:], strict=True):
        assert parameter.grad.is_sparse == (is_sparse and parameter.shape[0] == 30)
        torch.testing.assert_close(parameter.grad.to_dense(), copy.grad)
    assert unused.grad is None


@pytest.mark.parametrize(
    ("instructions", "kind"), [("avx2", Float32Muon), ("amx", torch.optim.Muon)]
)
def test_muon_takes_the_matrices_of_the_bilm(instructions, kind, monkeypatch):
    """Its updates are orthogonal: their singular values are alike. PyTorch's iteration
    takes minutes where a CPU has no bfloat16."""
    monkeypatch.setattr(muons, "instructions", lambda: instructions)
    bilm = BiLM.random(tiny_config(hidden_dim=64, projection_dim=32))
    model = LanguageModel(bilm, FullSoftmax(32, 50))
    dense = dict(model.bilm.named_parameters(prefix="bilm"))
    dense |= model.softmax.named_parameters(prefix="softmax")
    optimizers = muon(learn_rate=1.0, weight_decay=0.0).make(dense, {})
    assert type(optimizers[0]) is kind
    before = {name: parameter.detach().clone() for name, parameter in dense.items()}
    for parameter in dense.values():
        parameter.grad = torch.randn_like(parameter)
    for optimizer in optimizers:
        optimizer.step()
    for name, parameter in dense.items():
        if parameter.ndim == 2 and min(parameter.shape) > 8:
            update = (parameter.detach() - before[name]).float()
            values = torch.linalg.svdvals(update)
            spread = float(values[0] / values[min(values.shape) // 2])
            by_muon = name.startswith("bilm.") and "embedding" not in name
            assert (spread < 1.7) == by_muon, (name, spread)


def test_matrices_of_the_bilm_decay_with_muon():
    """Without it their weights grow until gates are saturated."""
    model = LanguageModel(BiLM.random(tiny_config()), FullSoftmax(8, 50))
    dense = dict(model.bilm.named_parameters(prefix="bilm"))
    dense |= model.softmax.named_parameters(prefix="softmax")
    before = {name: parameter.detach().clone() for name, parameter in dense.items()}
    for parameter in dense.values():
        parameter.grad = torch.zeros_like(parameter)
    for optimizer in muon(learn_rate=1.0).make(dense, {}):
        optimizer.step()
    decayed = {name for name in dense if not torch.equal(dense[name], before[name])}
    assert decayed == {
        name
        for name, parameter in dense.items()
        if name.startswith("bilm.") and parameter.ndim == 2 and "embedding" not in name
    }


@pytest.mark.parametrize("weight_decay", [0.0, 3.0])
@pytest.mark.parametrize("kind", [BatchedMuon, Float32Muon])
def test_muon_by_shape_is_that_of_pytorch(kind, weight_decay):
    torch.manual_seed(0)
    shapes = (24, 40), (40, 24), (24, 24), (24, 40)
    start = [torch.randn(shape) for shape in shapes]
    settings = {"weight_decay": weight_decay, "adjust_lr_fn": "match_rms_adamw"}
    made = []
    for each in (torch.optim.Muon, kind):
        matrices = [torch.nn.Parameter(matrix.clone()) for matrix in start]
        optimizer = each(matrices, 0.01, **settings)
        torch.manual_seed(1)
        for _ in range(3):
            for matrix in matrices:
                matrix.grad = torch.randn_like(matrix)
            optimizer.step()
        made.append(matrices)
    for before, theirs, ours in zip(start, *made, strict=True):
        assert (theirs - before).abs().max() > 5e-3
        # PyTorch's has 8 bits.
        torch.testing.assert_close(ours, theirs, atol=5e-4, rtol=0)
