"""The definition itself as kernels, where no other kernel can compute, and to compare
other kernels with."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..config import BiLMConfig
from ..model import BidirectionalLM
from ..token_encoder import CharCnnEncoder
from .kernel import DispatchKey, Inputs, Outputs


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
        parts: Sequence[Tensor],
        word_ids_V: Tensor | None = None,
    ) -> Tensor:
        if word_ids_V is None:
            return torch.cat([encoder(part) for part in parts])
        words = word_ids_V.split([len(part) for part in parts])
        return torch.cat([encoder(*each) for each in zip(parts, words)])


class _Lstm(_Definition):
    def read(self, model: BidirectionalLM, prepared: None, inputs: Inputs) -> Outputs:
        x_VH = inputs.x_VH.to(inputs.state.forward.h.dtype)
        return model.read(*inputs._replace(x_VH=x_VH))


TOKENS, LSTM = _Tokens(), _Lstm()
