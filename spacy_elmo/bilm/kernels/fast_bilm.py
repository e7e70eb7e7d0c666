"""A biLM computed by the kernels that plan.py chooses.

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
from .kernel import DispatchKey, dispatch_key_of
from .plan import (
    LSTM_KERNELS,
    TOKEN_KERNELS,
    check_precision,
    choose_lstm,
    choose_token_encoder,
)
from .prepared import Prepared, PreparedWeights, weights_of


class FastBiLM:
    """Computes a model in a precision, with prepared weights that are kept from call to
    call."""

    def __init__(self, model: BidirectionalLM, prepared: PreparedWeights) -> None:
        self._model, self._prepared = model, prepared

    @property
    def precision(self) -> Precision:
        """The precision of inference. Setting it raises as `check_precision`."""
        return self._prepared.precision

    @precision.setter
    def precision(self, precision: Precision) -> None:
        check_precision(precision, self.dispatch_key())
        self._prepared.precision = precision
        self._prepared.clear()

    def token_vectors(
        self, ids: Sequence[Tensor], word_ids_V: Tensor | None = None
    ) -> Tensor:
        """Return context-independent vectors of distinct words, (V, H).

        Args:
            ids: Character ids (V, C) of words, or their word ids (V,) in models that
                read no characters. Character ids may come in several parts. Words are
                then sorted by length, and each part is as wide as its longest word
                needs.
            word_ids_V: Word ids beside the characters, in models that read both.
        """
        encoder = self._model.token_encoder
        if not isinstance(encoder, CharCnnEncoder):
            return encoder(*ids)
        key = self.dispatch_key()
        name = choose_token_encoder(key, self._model.config)
        kernel = TOKEN_KERNELS[name]
        with _float32_mode(key):
            weights = self._prepare(self._prepared.tokens, name, kernel, encoder, key)
            if len(ids) == 1:
                return kernel.encode(encoder, weights, ids[0], word_ids_V)
            if kernel is char_cnn:
                return char_cnn.encode_parts(encoder, weights, ids, word_ids_V)
            words: Sequence[Tensor | None] = [None] * len(ids)
            if word_ids_V is not None:
                words = word_ids_V.split([len(part) for part in ids])
            parts = zip(ids, words)
            return torch.cat([kernel.encode(encoder, weights, *part) for part in parts])

    def read(
        self,
        x_VH: Tensor,
        forward_N: Tensor,
        backward_N: Tensor,
        batch_sizes: Sequence[int],
        state: BiLMState,
        dropout: float = 0.0,
    ) -> tuple[list[Tensor], list[Tensor], BiLMState]:
        """Compute `BidirectionalLM.read`, whose docstring describes arguments and
        results."""
        key, name, weights = self._lstm(batch_sizes)
        read = LSTM_KERNELS[name].read
        rows = forward_N, backward_N
        with _float32_mode(key):
            return read(self._model, weights, x_VH, *rows, batch_sizes, state, dropout)

    def layers(
        self,
        x_VH: Tensor,
        word_N: Tensor,
        reversed_N: Tensor,
        batch_sizes: Sequence[int],
        state: BiLMState,
        dropout: float = 0.0,
    ) -> tuple[Tensor, BiLMState]:
        """Return the layers of packed sentences, (L+1, N, D), and the state after them.

        Args:
            x_VH: Token vectors.
            word_N: The word at each packed position.
            reversed_N: The position that mirrors each one in its sentence.
            batch_sizes: Number of sentences that are longer than t, for each step t.
            state: The state before the first step.
            dropout: Rate on the input of every layer while training.
        """
        _, name, weights = self._lstm(batch_sizes)
        if name == "native_lstm":
            return native_lstm.read_layers(
                self._model, weights, x_VH, word_N, reversed_N, batch_sizes, state
            )
        ahead, back, state = self.read(
            x_VH, word_N, word_N[reversed_N], batch_sizes, state, dropout
        )
        return self._model.join(x_VH[word_N], ahead, back, reversed_N), state

    def dispatch_key(self) -> DispatchKey:
        """Return the dispatch key of the model, in this thread and now."""
        return dispatch_key_of(next(weights_of(self._model)), self.precision)

    def _lstm(self, batch_sizes: Sequence[int]) -> tuple[DispatchKey, str, Any]:
        """Return the dispatch key, the kernel of the LSTM layers, and its weights."""
        key, model = self.dispatch_key(), self._model
        rows = sum(batch_sizes) / len(batch_sizes)
        name = choose_lstm(key, model.config, rows)
        kernel = LSTM_KERNELS[name]
        weights = self._prepare(self._prepared.layers, name, kernel, model, key)
        return key, name, weights

    def _prepare(
        self,
        prepared: Prepared[Any],
        name: str,
        kernel: Any,
        module: Any,
        key: DispatchKey,
    ) -> Any:
        """Return prepared weights: made anew where a gradient is asked for, else kept
        from the last call if nothing has changed."""
        if key.gradient:
            return kernel.prepare(module, key)
        return prepared(module, lambda: kernel.prepare(module, key), name, key)


def _float32_mode(key: DispatchKey) -> AbstractContextManager[None]:
    """Return a context for products of float32 on a GPU. Training has set its own."""
    return nullcontext() if key.gradient else float32_mode(key.precision, key.device)
