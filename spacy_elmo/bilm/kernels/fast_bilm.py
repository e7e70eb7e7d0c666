"""A biLM computed by the kernels that plan.py chooses, with weights prepared for them.

Shapes: as in model.py.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from ...machine import Precision, float32_mode
from ..lstm import BiLMState
from ..model import BidirectionalLM
from ..token_encoder import CharCnnEncoder
from . import char_cnn, native_lstm
from .kernel import Case, case_of
from .plan import (
    LSTM_KERNELS,
    TOKEN_KERNELS,
    check_precision,
    choose_lstm,
    choose_token_encoder,
)
from .prepared import Prepared, PreparedWeights, weights_of


class FastBiLM:
    """Computes a model in a precision, with what is kept of it from call to call."""

    def __init__(self, model: BidirectionalLM, prepared: PreparedWeights) -> None:
        self._model, self._prepared = model, prepared

    @property
    def precision(self) -> Precision:
        """The precision of inference. Setting it raises as `check_precision`."""
        return self._prepared.precision

    @precision.setter
    def precision(self, precision: Precision) -> None:
        check_precision(precision, self.case())
        self._prepared.precision = precision
        self._prepared.clear()

    def token_vectors(
        self, ids: Sequence[Tensor], word_ids_V: Tensor | None = None
    ) -> Tensor:
        """Return context-independent vectors of distinct words, (V, H).

        Args:
            ids: What the token encoder reads: character ids (V, C), in several parts
                of words sorted by length too, each as wide as its longest word needs
                it, or word ids (V,).
            word_ids_V: Word ids beside the characters, in models that read both.
        """
        encoder = self._model.token_encoder
        if not isinstance(encoder, CharCnnEncoder):
            return encoder(*ids)
        case = self.case()
        name = choose_token_encoder(case, self._model.config)
        kernel = TOKEN_KERNELS[name]
        with _float32_mode(case):
            weights = self._prepare(self._prepared.tokens, name, kernel, encoder, case)
            if len(ids) == 1:
                return kernel.encode(encoder, weights, ids[0], word_ids_V)
            if kernel is char_cnn:
                return char_cnn.encode_parts(encoder, weights, ids, word_ids_V)
            of_parts = [
                kernel.encode(encoder, weights, part, words)
                for part, words in _in_parts(ids, word_ids_V)
            ]
            return torch.cat(of_parts)

    def read(
        self,
        x_VH: Tensor,
        forward_N: Tensor,
        backward_N: Tensor,
        batch_sizes: Sequence[int],
        state: BiLMState,
        dropout: float = 0.0,
    ) -> tuple[list[Tensor], list[Tensor], BiLMState]:
        """Return what `BidirectionalLM.read` returns."""
        case, name, weights = self._lstm(batch_sizes)
        with _float32_mode(case):
            return LSTM_KERNELS[name].read(
                *(
                    self._model,
                    weights,
                    x_VH,
                    forward_N,
                    backward_N,
                    batch_sizes,
                    state,
                ),
                dropout,
            )

    def layers(
        self,
        x_VH: Tensor,
        word_N: Tensor,
        reversed_N: Tensor,
        batch_sizes: Sequence[int],
        state: BiLMState,
        dropout: float = 0.0,
    ) -> tuple[Tensor, BiLMState]:
        """Return the layers of packed sentences, (L+1, N, D), and the state after them,
        as `BidirectionalLM.forward` does from token vectors on."""
        _, name, weights = self._lstm(batch_sizes)
        if name == "native_lstm":
            return native_lstm.read_layers(
                self._model, weights, x_VH, word_N, reversed_N, batch_sizes, state
            )
        ahead, back, state = self.read(
            x_VH, word_N, word_N[reversed_N], batch_sizes, state, dropout
        )
        return self._model.join(x_VH[word_N], ahead, back, reversed_N), state

    def _lstm(self, batch_sizes: Sequence[int]) -> tuple[Case, str, Any]:
        """Return the case, the kernel of the LSTM layers, and its prepared weights."""
        case, model = self.case(), self._model
        rows = sum(batch_sizes) / len(batch_sizes)
        name = choose_lstm(case, model.config, rows)
        kernel = LSTM_KERNELS[name]
        weights = self._prepare(self._prepared.layers, name, kernel, model, case)
        return case, name, weights

    def _prepare(
        self, prepared: Prepared[Any], name: str, kernel: Any, module: Any, case: Case
    ) -> Any:
        if case.gradient:
            return kernel.prepare(module, case)
        return prepared(module, lambda: kernel.prepare(module, case), name, case)

    def case(self) -> Case:
        """Return the case that kernels are chosen by now."""
        return case_of(next(weights_of(self._model)), self.precision)


def _in_parts(
    parts: Sequence[Tensor], word_ids_V: Tensor | None
) -> list[tuple[Tensor, Tensor | None]]:
    """Return each part with its word ids."""
    if word_ids_V is None:
        return [(part, None) for part in parts]
    return list(zip(parts, word_ids_V.split([len(part) for part in parts])))


def _float32_mode(case: Case) -> AbstractContextManager[None]:
    """Return how a GPU multiplies float32: in training as the trainer has set it."""
    return nullcontext() if case.gradient else float32_mode(case.precision, case.device)
