"""A biLM computed by the kernels that plan.py chooses.

Kernels are chosen once for a model and a dispatch key, not for every batch. The choice
is kept together with the prepared weights: the weights in the layout that the kernel
reads.

Shapes: as in model.py.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from ...machine import Precision, float32_mode
from ..lstm import BiLMState
from ..model import BidirectionalLM
from ..token_encoder import CharCnnEncoder
from . import native_lstm
from .kernel import (
    DispatchKey,
    Inputs,
    LstmKernel,
    Outputs,
    dispatch_key_of,
    forced_kernels,
    is_traced,
)
from .plan import (
    LSTM_KERNELS,
    MOST_ROWS_AT_ONCE,
    TOKEN_KERNELS,
    choose_lstm,
    choose_token_encoder,
)

T = TypeVar("T")


class FastBiLM:
    """Computes a model in a precision, with prepared weights that are kept from call to
    call."""

    def __init__(self, model: BidirectionalLM, prepared: "PreparedWeights") -> None:
        self._model, self._prepared = model, prepared

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
        encoder, config = self._model.token_encoder, self._model.config
        if not isinstance(encoder, CharCnnEncoder):
            return encoder(*ids)
        key = self.dispatch_key()

        def prepare() -> tuple[Any, Any]:
            kernel = TOKEN_KERNELS[choose_token_encoder(key, config)]
            return kernel, kernel.prepare(encoder, key)

        with _float32_mode(key):
            if key.gradient:
                kernel, weights = prepare()
            else:
                kept = self._prepared.tokens
                kernel, weights = kept([encoder], prepare, key, forced_kernels())
            return kernel.encode(encoder, weights, ids, word_ids_V)

    def read(
        self,
        x_VH: Tensor,
        forward_N: Tensor,
        backward_N: Tensor,
        batch_sizes: Sequence[int],
        state: BiLMState,
        dropout: float = 0.0,
    ) -> Outputs:
        """Compute `BidirectionalLM.read`, whose docstring describes arguments and
        results."""
        inputs = Inputs(x_VH, forward_N, backward_N, batch_sizes, state, dropout)
        key = self.dispatch_key()
        return self._read(*self._lstm(key, batch_sizes), key, inputs)

    def layers(
        self,
        x_VH: Tensor,
        word_N: Tensor,
        reversed_N: Tensor,
        batch_sizes: Sequence[int],
        state: BiLMState | None = None,
        dropout: float = 0.0,
    ) -> tuple[Tensor, BiLMState]:
        """Return the layers of packed sentences, (L+1, N, D), and the state after them.

        Args:
            x_VH: Token vectors.
            word_N: The word at each packed position.
            reversed_N: The position that mirrors each one in its sentence.
            batch_sizes: Number of sentences that are longer than t, for each step t.
            state: The state before the first step; None for zeros.
            dropout: Rate on the input of every LSTM layer while training.
        """
        model, key = self._model, self.dispatch_key()
        kernel, weights = self._lstm(key, batch_sizes)
        rows = word_N, word_N[reversed_N]
        if kernel is native_lstm:  # it writes each row where `join` would copy it to
            layers_LN2H, state = native_lstm.read_layers(
                model, weights, x_VH, rows, reversed_N, batch_sizes, state
            )
            return layers_LN2H.flatten(2), state
        if state is None:
            weight = next(weights_of(model.forward_lstm))
            state = BiLMState.zeros(model.config, batch_sizes[0], weight)
        inputs = Inputs(x_VH, *rows, batch_sizes, state, dropout)
        ahead, back, state = self._read(kernel, weights, key, inputs)
        return model.join(x_VH[word_N], ahead, back, reversed_N), state

    def _read(
        self, kernel: LstmKernel, weights: Any, key: DispatchKey, inputs: Inputs
    ) -> Outputs:
        off = torch.autocast(inputs.x_VH.device.type, enabled=False)
        with off, _float32_mode(key):
            return kernel.read(self._model, weights, inputs)

    def _lstm(self, key: DispatchKey, batch_sizes: Sequence[int]) -> tuple[Any, Any]:
        """Return the kernel of the LSTM layers, and its prepared weights. Both are kept
        until the weights, the dispatch key or the forced kernels change."""
        model, rows = self._model, sum(batch_sizes) / len(batch_sizes)

        def prepare() -> tuple[Any, Any]:
            kernel = LSTM_KERNELS[choose_lstm(key, model.config, rows)]
            return kernel, kernel.prepare(model, key)

        if key.gradient:
            return prepare()
        many = key.device == "cuda" and rows > MOST_ROWS_AT_ONCE
        stacks, kept = [model.forward_lstm, model.backward_lstm], self._prepared.layers
        return kept(stacks, prepare, key, forced_kernels(), many)

    def dispatch_key(self) -> DispatchKey:
        """Return the dispatch key of the model, in this thread and now."""
        weight = next(weights_of(self._model))
        return dispatch_key_of(weight, self._prepared.precision)


class Prepared(Generic[T]):
    """A value that is computed from weights and settings, and reused until one of them
    changes.

    torch counts the writes to a tensor, in place or by an optimizer. Two kinds of
    writes are not counted: through `.data`, and by torch's fused optimizers. So
    prepared weights are also dropped whenever a model is put into training mode or out
    of it.
    """

    def __init__(self) -> None:
        self._kept: tuple[object, object, T] | None = None

    def __call__(
        self, modules: Sequence[nn.Module], make: Callable[[], T], *settings: object
    ) -> T:
        """Return the value for the weights of modules and for settings.

        Args:
            modules: The modules whose weights the value depends on.
            make: Computes the value.
            settings: Everything else that the value depends on.
        """
        if is_traced():  # tensors have no memory then, and nothing may be kept
            return make()
        tensors = list(weights_of(*modules))
        key, kept = (settings, *map(key_of, tensors)), self._kept
        if kept is None or kept[0] != key:
            # Their memory is kept alive, or other weights may get its address.
            alive = [tensor.detach() for tensor in tensors]
            with torch.inference_mode(False), torch.no_grad():
                kept = self._kept = key, alive, make()
        return kept[2]

    @property
    def kept(self) -> T | None:
        """The value that was computed last. The weights may have changed since."""
        return None if self._kept is None else self._kept[2]

    def clear(self) -> None:
        """Drop the value."""
        self._kept = None

    def __reduce__(self) -> Any:
        """A copy, in this process or another, computes its own value."""
        return Prepared, ()


class PreparedWeights:
    """The precision of a biLM, and its prepared weights: of the token encoder, and of
    the LSTM layers."""

    def __init__(self) -> None:
        self.precision: Precision = "float32"
        self.tokens, self.layers = Prepared[Any](), Prepared[Any]()

    def clear(self) -> None:
        """Drop the weights."""
        self.tokens.clear()
        self.layers.clear()


def weights_of(*modules: nn.Module) -> Iterator[Tensor]:
    """Yield all weights of modules. `module.parameters` takes five times as long
    (docs/kernels.md)."""
    waiting: list[nn.Module | None] = [*modules]
    while waiting:
        part = waiting.pop()
        if part is not None:
            for weight in part._parameters.values():  # noqa: SLF001
                if weight is not None:
                    yield weight
            waiting.extend(part._modules.values())  # noqa: SLF001


def key_of(weight: Tensor) -> tuple[int, int, int]:
    """Return a key that changes when the weight is replaced or written to, even with
    equal values. It is valid while a reference to the weight is held."""
    version = 0 if weight.is_inference() else weight._version  # noqa: SLF001
    return id(weight), weight.data_ptr(), version


def _float32_mode(key: DispatchKey) -> AbstractContextManager[None]:
    """Return a context for products of float32 on a GPU. Training has set its own."""
    return nullcontext() if key.gradient else float32_mode(key.precision, key.device)
