"""The training objective: forward and backward likelihood, joint (paper section 3.1).

    sum_k  log p(t_k | t_1..t_{k-1})  +  log p(t_k | t_{k+1}..t_N)

Both directions share the token encoder and the softmax, and have LSTMs of their own.
Shapes: N positions of a batch, P predictions of both directions, H projection.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from ..bilm import objectives
from ..bilm.bilm import BiLM
from ..bilm.lstm import LstmState
from ..bilm.objectives import Objective
from ..errors import Errors
from ..text.corpus import check_vocab
from ..text.streams import Batch

State = tuple[LstmState, LstmState]


def join_states(states: Sequence[State]) -> State:
    """The state of several groups of streams, one after the other."""
    forward, backward = (
        LstmState(torch.cat([s.h for s in part], 1), torch.cat([s.c for s in part], 1))
        for part in zip(*states)
    )
    return forward, backward


def some_streams(state: State, rows: slice) -> State:
    forward, backward = (
        LstmState(s.h[:, rows].contiguous(), s.c[:, rows].contiguous()) for s in state
    )
    return forward, backward


def on_device(batch: Batch[np.ndarray], device: torch.device) -> Batch[Tensor]:
    """Return a batch as tensors on a device."""

    def move(array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(array)
        if device.type == "cpu":
            return tensor
        return tensor.pin_memory().to(device, non_blocking=True)

    return batch.map(move)


class Reader(nn.Module):
    """A biLM as it reads batches: what the softmax predicts from.

    dropout_rate: on the input of every LSTM layer and on what comes out.
    """

    def __init__(self, bilm: BiLM, dropout_rate: float = 0.0) -> None:
        super().__init__()
        self.bilm = bilm
        self.dropout_rate = dropout_rate

    def forward(self, batch: Batch[Tensor], state: State) -> tuple[Tensor, State]:
        """RETURNS: the top layer where something is predicted, forward and then
        backward, (P, H); the state to carry on."""
        x_VH = self.bilm.token_encoder(batch.characters_VC)
        stacks = self.bilm.forward_lstm, self.bilm.backward_lstm
        tops, states = [], []
        for reading, stack, carried in zip(
            (batch.forward, batch.backward), stacks, state
        ):
            layers, carried = stack(
                x_VH[reading.word_N], batch.batch_sizes, carried, self.dropout_rate
            )
            tops.append(layers[-1][reading.position_P])
            states.append(LstmState(carried.h.detach(), carried.c.detach()))
        top_PH = dropout(torch.cat(tops), self.dropout_rate, self.training)
        return top_PH, (states[0], states[1])


class LanguageModel(nn.Module):
    """A biLM and its softmax. dropout_rate: as of `Reader`."""

    def __init__(
        self, bilm: BiLM, softmax: Objective, dropout_rate: float = 0.0
    ) -> None:
        super().__init__()
        self.reader = Reader(bilm, dropout_rate)
        self.softmax = softmax

    @property
    def bilm(self) -> BiLM:
        return self.reader.bilm

    def forward(self, batch: Batch[Tensor], state: State) -> tuple[list[Tensor], State]:
        """RETURNS: log-probabilities of the forward and of the backward targets, and
        the state to carry on."""
        top_PH, state = self.reader(batch, state)
        targets = batch.forward.target_P, batch.backward.target_P
        log_p_P = self.softmax(top_PH, torch.cat(targets))
        sizes = [len(target_P) for target_P in targets]
        return list(log_p_P.split(sizes)), state

    # -- files: the biLM's, and the softmax beside it -----------------------------

    @classmethod
    def load(cls, folder: Path, dropout_rate: float = 0.0) -> "LanguageModel":
        """Raises ValueError [EL034, EL036, EL039] if there is no softmax or its
        vocabulary is not one, and as `BiLM.load`."""
        bilm = BiLM.load(folder)
        path = folder / objectives.FILE
        if bilm.vocab is None or not path.exists():
            raise ValueError(Errors.EL036.format(path=folder))
        check_vocab(bilm.vocab, folder)
        softmax = objectives.load(path, bilm.config.projection_dim, len(bilm.vocab))
        return cls(bilm, softmax, dropout_rate).eval()
