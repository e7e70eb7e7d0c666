"""Changes of weights are noticed, whoever makes them."""

import io
import pickle
import subprocess
import sys
from copy import deepcopy

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.batch import pack
from spacy_elmo.bilm.bilm import BiLM

from ...models import SENTENCES, tiny_config


def is_up_to_date(bilm):
    """Return whether vectors are those of a new model with the same weights."""
    fresh = BiLM.random(tiny_config())
    fresh.load_state_dict(bilm.state_dict())
    pairs = zip(bilm.encode(SENTENCES), fresh.encode(SENTENCES))
    return all(np.allclose(a, b, rtol=0, atol=1e-6) for a, b in pairs)


def loss_of(bilm):
    """Return a loss that every weight has a part in."""
    with torch.enable_grad():
        ids = torch.from_numpy(bilm.character_ids(["a", "word", "고양이"]))
        words = torch.tensor([0, 1, 2, 1])
        state = bilm.zero_state(2)
        x_VH = bilm.token_encoder(ids)
        ahead, back, _ = bilm.read(x_VH, words, words, [2, 2], state)
        return sum((layer**2).sum() for layer in [*ahead, *back])


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD])
def test_gradients_that_were_put_there(optimizer, fused):
    bilm = BiLM.random(tiny_config(), seed=1)
    stepping = optimizer(bilm.parameters(), lr=0.1, fused=fused)
    for _ in range(3):
        before = bilm.encode(SENTENCES)
        for parameter in bilm.parameters():
            parameter.grad = torch.randn_like(parameter)
        assert is_up_to_date(bilm)
        stepping.step()
        assert is_up_to_date(bilm)
        for a, b in zip(bilm.encode(SENTENCES), before):
            assert abs(a - b).max() > 1e-3


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("looks", range(4))
def test_a_training_step(fused, looks):
    """torch does not count what fused optimizers write; whenever vectors are asked
    for in between, they are not taken for the new ones."""
    bilm = BiLM.random(tiny_config(), seed=1)
    stepping = torch.optim.Adam(bilm.parameters(), lr=0.1, fused=fused)
    first = bilm.encode(SENTENCES)

    def look(number):
        if number == looks:
            bilm.encode(SENTENCES)

    look(0)
    loss = loss_of(bilm)
    look(1)
    loss.backward()
    look(2)
    stepping.step()
    look(3)
    stepping.zero_grad()
    assert is_up_to_date(bilm)
    assert abs(bilm.encode(SENTENCES)[0] - first[0]).max() > 1e-3


def test_a_model_that_learns_from_some_step_on():
    bilm = BiLM.random(tiny_config(), seed=1).requires_grad_(False)
    bilm.encode(SENTENCES)
    bilm.requires_grad_(True)
    stepping = torch.optim.Adam(bilm.parameters(), lr=0.1, fused=True)
    bilm.encode(SENTENCES)
    loss_of(bilm).backward()
    stepping.step()
    stepping.zero_grad(set_to_none=True)
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
        assert a == pytest.approx(b, abs=1e-6)


def pickled(bilm):
    return pickle.loads(pickle.dumps(bilm))


def saved(bilm):
    file = io.BytesIO()
    torch.save(bilm, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copy", [deepcopy, pickled, saved])
def test_a_copy_that_learns(copy):
    """Fused optimizers are seen by the gradients that come to a weight of the copy."""
    bilm = BiLM.random(tiny_config(), seed=1)
    bilm.encode(SENTENCES)
    bilm = copy(bilm)
    stepping = torch.optim.Adam(bilm.parameters(), lr=0.1, fused=True)
    bilm.encode(SENTENCES)
    loss_of(bilm).backward()
    stepping.step()
    stepping.zero_grad()
    assert is_up_to_date(bilm)


def test_inference_mode_and_autocast_leave_nothing_behind():
    bilm, fresh = (BiLM.random(tiny_config(), seed=1) for _ in range(2))
    with torch.inference_mode():
        bilm(pack([["some", "words"]]))
        bilm.encode(SENTENCES[:1])
    with torch.autocast("cpu", torch.bfloat16):
        bilm.encode(SENTENCES[1:])
    more = [*SENTENCES, ["new", "words"]]
    for a, b in zip(bilm.encode(more), fresh.encode(more)):
        assert a == pytest.approx(b, abs=1e-6)
