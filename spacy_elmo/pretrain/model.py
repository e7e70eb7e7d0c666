"""The language model that is trained: a biLM and its objective (paper section 3.1).

    sum_k  log p(t_k | t_1..t_{k-1})  +  log p(t_k | t_{k+1}..t_N)

Both directions share the token encoder and the objective, and have LSTMs of their own.
Shapes: N positions of a batch, P predictions of both directions, H projection.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from ..bilm import BiLM, BiLMState, weights
from ..bilm.objectives import Objective
from ..errors import Errors
from ..machine import default_settings, to_device
from ..text import Batch, check_vocab


class LanguageModel(nn.Module):
    """A biLM and the objective that it is trained with. `dropout` is the rate on the
    input of each LSTM layer and of the objective."""

    def __init__(self, bilm: BiLM, softmax: Objective, dropout: float = 0.0) -> None:
        super().__init__()
        self.bilm, self.softmax, self.dropout = bilm, softmax, dropout

    def forward(
        self, batch: Batch[Tensor], state: BiLMState
    ) -> tuple[Tensor, BiLMState]:
        """Return the log-probabilities of a batch's targets, forward and then backward,
        (P,), and the state after its last step."""
        top_PH, state = self.read(batch, state)
        return self.log_p(top_PH, batch), state

    def read(self, batch: Batch[Tensor], state: BiLMState) -> tuple[Tensor, BiLMState]:
        """Return the top layer where something is predicted, forward and then backward,
        (P, H), and the state after the last step."""
        n = batch.n_parts
        x_VH = self.bilm.fast.token_vectors(batch.token_ids[:n], *batch.token_ids[n:])
        ahead, back = batch.forward, batch.backward
        ahead_LNH, back_LNH, state = self.bilm.fast.read(
            x_VH, ahead.word_N, back.word_N, batch.batch_sizes, state, self.dropout
        )
        tops = (
            ahead_LNH[-1].index_select(0, ahead.position_P),
            back_LNH[-1].index_select(0, back.position_P),
        )
        top_PH = dropout(torch.cat(tops), self.dropout, self.training)
        return top_PH, state.map(Tensor.detach)

    def log_p(self, top_PH: Tensor, batch: Batch[Tensor], known: Any = None) -> Tensor:
        """Return the log-probabilities of a batch's targets, (P,). `known` is what
        `Objective.prepare` returned for them."""
        target_P = torch.cat([batch.forward.target_P, batch.backward.target_P])
        more = () if known is None else (known,)
        log_p_P: Tensor = self.softmax(top_PH, target_P, *more)
        return log_p_P

    @classmethod
    @default_settings()
    def load(cls, folder: Path, dropout: float = 0.0) -> "LanguageModel":
        """Read a model folder: a biLM, and its objective beside it.

        Raises:
            ValueError: [EL036] It has no softmax; [EL034, EL039] its words are no
                vocabulary; also as `BiLM.load` and `objectives.load`.
        """
        bilm = BiLM.load(folder)
        softmax = weights.load_objective(folder, bilm.config, bilm.vocab)
        if bilm.vocab is None or softmax is None:
            raise Errors.EL036(path=folder)
        check_vocab(bilm.vocab, folder)
        return cls(bilm, softmax, dropout).eval()


def on_device(batch: Batch[np.ndarray], device: torch.device) -> Batch[Tensor]:
    """Return a batch as tensors on a device."""
    return batch.map(lambda array: to_device(array, device))
