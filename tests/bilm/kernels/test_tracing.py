"""torch records a biLM: what it records is the definition."""

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.encode import pack
from spacy_elmo.bilm.lstm import BiLMState, LstmState

from ...models import SENTENCES, tiny_config

BATCH = pack(SENTENCES)


class Layers(torch.nn.Module):
    """The layers of one batch, from the state before it."""

    def __init__(self, bilm):
        super().__init__()
        self.bilm = bilm

    def forward(self, h, c, back_h, back_c):
        state = BiLMState(LstmState(h, c), LstmState(back_h, back_c))
        return self.bilm(BATCH, state)[0]


def exported(module, inputs):
    return torch.export.export(module, inputs).module()


def traced(module, inputs):
    return torch.jit.trace(module, inputs, check_trace=False)


@pytest.mark.parametrize("record", [exported, traced])
@pytest.mark.filterwarnings("ignore")
def test_a_recorded_bilm_has_the_same_layers(record):
    bilm = BiLM.random(tiny_config(), seed=1)
    zeros = bilm.zero_state(len(BATCH.positions))
    inputs = (*zeros.forward, *zeros.backward)
    with torch.no_grad():
        recorded = record(Layers(bilm), inputs)
        other = tuple(torch.rand_like(part) for part in inputs)
        torch.testing.assert_close(recorded(*other), Layers(bilm)(*other))
