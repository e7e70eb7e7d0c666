"""Gradients are averaged while the backward pass computes others, in one order."""

import pytest
import torch
import torch.distributed as dist

from spacy_elmo.bilm.kernels.kernel import force
from spacy_elmo.pretrain.workers import Workers


@pytest.fixture
def workers(tmp_path):
    """One process, which talks to itself."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield Workers(0, 1, torch.device("cpu"), control=dist.group.WORLD)
    dist.destroy_process_group()


@pytest.mark.parametrize("unused", [None, 1, 3])
@pytest.mark.parametrize("way", ["overlapped", "afterwards"])
def test_order(workers, way, unused, monkeypatch):
    layers = [torch.nn.Linear(n, n + 1, bias=False) for n in range(2, 6)]
    weights = [layer.weight for layer in layers]
    names = {weight.shape: f"sent {i}" for i, weight in enumerate(weights)}
    happened, send = [], dist.all_reduce

    def sends(tensor, **kwargs):
        happened.append(names[tensor.shape])
        return send(tensor, **kwargs)

    monkeypatch.setattr(dist, "all_reduce", sends)
    for i, weight in enumerate(weights):
        weight.register_post_accumulate_grad_hook(
            lambda _, i=i: happened.append(f"has {i}")
        )
    outputs, x = [], torch.ones(1, 2)
    for i, layer in enumerate(layers):
        x = torch.ones(1, i + 3) if i == unused else layer(x)
        outputs.append(x.sum())
    with force(gradients=way), workers.averaging(weights):
        sum(outputs).backward()
    has = [i for i in (3, 2, 1, 0) if i != unused]
    assert [n for n in happened if "sent" in n] == [f"sent {i}" for i in (3, 2, 1, 0)]
    if way == "afterwards":
        assert set(happened[: len(has)]) == {f"has {i}" for i in has}
    else:  # what comes after one that is missing waits for it
        n = {None: 4, 1: 2, 3: 0}[unused]
        assert len([each for each in happened[: 2 * n] if "sent" in each]) == n
    for i, weight in enumerate(weights):
        assert weight.grad is not None and bool((weight.grad != 0).any()) == (i in has)


def test_nothing_is_left_when_a_backward_pass_fails(workers):
    weight = torch.nn.Parameter(torch.ones(2))
    with pytest.raises(RuntimeError, match="scalar"), workers.averaging([weight]):
        (2 * weight).backward()
    (2 * weight).sum().backward()
    assert weight.grad.tolist() == [2, 2]
