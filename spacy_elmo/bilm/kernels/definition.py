"""The definition itself as kernels, where no other kernel can compute, and to compare
other kernels with."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..config import BiLMConfig
from ..lstm import BiLMState
from ..model import BidirectionalLM
from ..token_encoder import CharCnnEncoder
from .kernel import DispatchKey


class _Definition:
    def can_run(self, key: DispatchKey, config: BiLMConfig) -> bool:
        return True

    def prepare(self, model: Any, key: DispatchKey) -> None:
        return None


class _Tokens(_Definition):
    def encode(
        self,
        encoder: CharCnnEncoder,
        prepared: None,
        ids_VC: Tensor,
        word_ids_V: Tensor | None = None,
    ) -> Tensor:
        return encoder(ids_VC, word_ids_V)


class _Lstm(_Definition):
    def read(
        self,
        model: BidirectionalLM,
        prepared: None,
        x_VH: Tensor,
        forward_N: Tensor,
        backward_N: Tensor,
        batch_sizes: Sequence[int],
        state: BiLMState,
        dropout: float = 0.0,
    ) -> tuple[list[Tensor], list[Tensor], BiLMState]:
        with torch.autocast(x_VH.device.type, enabled=False):
            x_VH = x_VH.to(state.forward.h.dtype)
            return model.read(x_VH, forward_N, backward_N, batch_sizes, state, dropout)


TOKENS, LSTM = _Tokens(), _Lstm()
