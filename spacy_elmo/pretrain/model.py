"""The training objective: forward and backward likelihood, joint (paper section 3.1).

    sum_k  log p(t_k | t_1..t_{k-1})  +  log p(t_k | t_{k+1}..t_N)

Both directions share the token encoder and the softmax, and have LSTMs of their own.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from ..bilm import softmax as softmax_module
from ..bilm.bilm import BiLM
from ..bilm.lstm import LstmState
from ..bilm.softmax import Softmax, make_softmax
from ..errors import Errors
from .corpus import Window

State = tuple[LstmState, LstmState]


class LanguageModel(nn.Module):
    """A biLM and its softmax.

    dropout_rate: on the input of every LSTM layer and on what the softmax reads.
    """

    def __init__(self, bilm: BiLM, softmax: Softmax, dropout_rate: float = 0.0) -> None:
        super().__init__()
        self.bilm = bilm
        self.softmax = softmax
        self.dropout_rate = dropout_rate

    def forward(
        self,
        directions: tuple[Window, Window],
        words: Sequence[str],
        state: State,
    ) -> tuple[list[Tensor], State]:
        """words: what the windows' numbers stand for.

        RETURNS: log-probabilities of the forward and of the backward targets, each
        (n,), and the state to carry on.
        """
        batch_size = state[0].h.shape[1]
        read = np.concatenate([window.input_N for window in directions])
        distinct, where = np.unique(read, return_inverse=True)
        x_VH = self.bilm.token_vectors([words[i] for i in distinct])
        where_2N = torch.from_numpy(where).to(x_VH.device)
        stacks = self.bilm.forward_lstm, self.bilm.backward_lstm
        tops, targets, states = [], [], []
        for window, where_N, stack, carried in zip(
            directions, where_2N.chunk(2), stacks, state
        ):
            batch_sizes = [batch_size] * (len(window.input_N) // batch_size)
            layers, carried = stack(
                x_VH[where_N], batch_sizes, carried, self.dropout_rate
            )
            target_N = torch.from_numpy(window.target_N).to(x_VH.device)
            tops.append(layers[-1][target_N >= 0])
            targets.append(target_N[target_N >= 0])
            states.append(LstmState(carried.h.detach(), carried.c.detach()))
        top_NH = dropout(torch.cat(tops), self.dropout_rate, self.training)
        log_p_N = self.softmax(top_NH, torch.cat(targets))
        return list(log_p_N.split([len(target) for target in targets])), (
            states[0],
            states[1],
        )

    # -- files: the biLM's, and the softmax beside it -----------------------------

    def save(self, folder: Path, *, dtype: str = "float32") -> str:
        """RETURNS: the fingerprint written. Raises as `BiLM.save`."""
        return self.bilm.save(folder, dtype=dtype, softmax=self.softmax)

    @classmethod
    def load(cls, folder: Path, dropout_rate: float = 0.0) -> "LanguageModel":
        """Raises ValueError [EL036] if there is no softmax, and as `BiLM.load`."""
        bilm = BiLM.load(folder)
        path = folder / softmax_module.FILE
        if bilm.vocab is None or not path.exists():
            raise ValueError(Errors.EL036.format(path=folder))
        softmax = softmax_module.load(path, bilm.config.projection_dim, len(bilm.vocab))
        return cls(bilm, softmax, dropout_rate).eval()

    @classmethod
    def start(
        cls, bilm: BiLM, cutoffs: Sequence[int], *, seed: int, dropout_rate: float
    ) -> "LanguageModel":
        """A new softmax over the biLM's vocabulary."""
        torch.manual_seed(seed)
        softmax = make_softmax(
            bilm.config.projection_dim, len(bilm.vocab or []), cutoffs
        )
        return cls(bilm, softmax, dropout_rate)
