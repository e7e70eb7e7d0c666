"""Changes of weights are noticed, whoever makes them."""

import io
import pickle
import subprocess
import sys
from copy import deepcopy

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.encode import pack

from ...models import SENTENCES, tiny_config


def is_up_to_date(bilm):
    """Return whether vectors are those of a new model with the same weights."""
    fresh = BiLM.random(tiny_config())
    fresh.load_state_dict(bilm.state_dict())
    pairs = zip(bilm.encode(SENTENCES), fresh.encode(SENTENCES))
    return all(np.array_equal(a, b) for a, b in pairs)


def loss_of(bilm):
    """Return a loss that every weight has a part in."""
    layers, _ = bilm(pack([["a", "word", "고양이"], ["word"]]))
    return (layers**2).sum()


@pytest.mark.parametrize(
    ("optimizer", "lr"), [(torch.optim.Adam, 0.1), (torch.optim.SGD, 0.001)]
)
def test_a_step_of_an_optimizer(optimizer, lr):
    """In evaluation mode too."""
    bilm = BiLM.random(tiny_config(), seed=1)
    stepping = optimizer(bilm.parameters(), lr=lr)
    for _ in range(3):
        before = bilm.encode(SENTENCES)
        loss_of(bilm).backward()
        assert is_up_to_date(bilm)
        stepping.step()
        stepping.zero_grad()
        assert is_up_to_date(bilm)
        assert abs(bilm.encode(SENTENCES)[0] - before[0]).max() > 1e-5


@pytest.mark.parametrize("copy", [lambda bilm: bilm, deepcopy])
def test_a_fused_step_in_training_mode(copy):
    """Which torch does not count: prepared weights are dropped with the mode."""
    bilm = BiLM.random(tiny_config(), seed=1)
    before = bilm.encode(SENTENCES)
    bilm = copy(bilm).train()
    stepping = torch.optim.Adam(bilm.parameters(), lr=0.1, fused=True)
    for _ in range(2):
        loss_of(bilm).backward()
        stepping.step()
        stepping.zero_grad()
    bilm.eval()
    assert is_up_to_date(bilm)
    assert abs(bilm.encode(SENTENCES)[0] - before[0]).max() > 1e-3


@pytest.mark.parametrize("change", ["in place", "another", "loaded"])
def test_a_changed_weight(change):
    bilm = BiLM.random(tiny_config(), seed=1)
    bilm.encode(SENTENCES)
    layer = bilm.forward_lstm.layers[0]
    with torch.no_grad():
        if change == "in place":
            layer.weight_h[0, 0] += 1
        elif change == "another":
            layer.weight_h = torch.nn.Parameter(layer.weight_h + 1)
        else:
            bilm.load_state_dict(BiLM.random(tiny_config(), seed=2).state_dict())
    assert is_up_to_date(bilm)


def test_importing_leaves_other_optimizers_and_forks_alone():
    code = """
import os, torch
from torch.optim import optimizer
torch.set_num_threads(2)
import spacy_elmo.bilm.bilm, spacy_elmo.pipeline, spacy_elmo.pretrain
assert not optimizer._global_optimizer_post_hooks
child = os.fork()
if child:
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 2, status
else:
    os._exit(torch.get_num_threads())
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_memory_that_was_given_back_and_taken_again():
    bilm, fresh = (BiLM.random(tiny_config(), seed=1) for _ in range(2))
    bilm.encode(SENTENCES)
    bilm.half().float()
    fresh.half().float()
    for a, b in zip(bilm.encode(SENTENCES), fresh.encode(SENTENCES)):
        assert np.array_equal(a, b)


def pickled(bilm):
    return pickle.loads(pickle.dumps(bilm))


def saved(bilm):
    file = io.BytesIO()
    torch.save(bilm, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copy", [deepcopy, pickled, saved])
def test_a_copy_that_learns(copy):
    bilm = BiLM.random(tiny_config(), seed=1)
    before = bilm.encode(SENTENCES)
    copied = copy(bilm)
    assert np.array_equal(copied.encode(SENTENCES)[0], before[0])
    stepping = torch.optim.Adam(copied.parameters(), lr=0.1)
    loss_of(copied).backward()
    stepping.step()
    assert is_up_to_date(copied)
    assert abs(copied.encode(SENTENCES)[0] - before[0]).max() > 1e-3
    assert np.array_equal(bilm.encode(SENTENCES)[0], before[0])


def test_inference_mode_and_autocast_leave_nothing_behind():
    bilm, fresh = (BiLM.random(tiny_config(), seed=1) for _ in range(2))
    with torch.inference_mode():
        bilm(pack([["some", "words"]]))
        bilm.encode(SENTENCES[:1])
    with torch.autocast("cpu", torch.bfloat16):
        bilm.encode(SENTENCES[1:])
    more = [*SENTENCES, ["new", "words"]]
    for a, b in zip(bilm.encode(more), fresh.encode(more)):
        assert np.array_equal(a, b)
