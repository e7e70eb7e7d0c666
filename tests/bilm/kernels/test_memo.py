"""Changes of weights are noticed, whoever makes them."""

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM

from ...models import SENTENCES, tiny_config


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD])
def test_vectors_are_of_the_weights_as_an_optimizer_left_them(optimizer, fused):
    bilm = BiLM.random(tiny_config(), seed=1)
    stepping = optimizer(bilm.parameters(), lr=0.1, fused=fused)
    for _ in range(3):
        before = bilm.encode(SENTENCES)
        for parameter in bilm.parameters():
            parameter.grad = torch.randn_like(parameter)
        stepping.step()
        fresh = BiLM.random(tiny_config())
        fresh.load_state_dict(bilm.state_dict())
        for a, b, c in zip(bilm.encode(SENTENCES), fresh.encode(SENTENCES), before):
            assert a == pytest.approx(b, abs=1e-6) and abs(a - c).max() > 1e-3


def test_memory_that_was_given_back_and_taken_again():
    bilm, fresh = (BiLM.random(tiny_config(), seed=1) for _ in range(2))
    bilm.encode(SENTENCES)
    bilm.half().float()
    fresh.half().float()
    for a, b in zip(bilm.encode(SENTENCES), fresh.encode(SENTENCES)):
        assert a == pytest.approx(b, abs=1e-6)


def test_inference_mode_and_autocast_leave_nothing_behind():
    bilm, fresh = (BiLM.random(tiny_config(), seed=1) for _ in range(2))
    with torch.inference_mode():
        bilm.encode(SENTENCES[:1])
    with torch.autocast("cpu", torch.bfloat16):
        bilm.encode(SENTENCES[1:])
    more = [*SENTENCES, ["new", "words"]]
    for a, b in zip(bilm.encode(more), fresh.encode(more)):
        assert a == pytest.approx(b, abs=1e-6)
