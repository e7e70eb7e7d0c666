"""A biLM computed by the kernels that plan.py chooses, with weights prepared for them.

Which kernel computes a part is decided once for a model, a case and what is forced,
not for every batch: the choice is kept with the weights that were prepared for it.

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
from . import char_cnn, native_lstm
from .kernel import Case, case_of, forced_kernels
from .plan import (
    LSTM_KERNELS,
    MOST_BY_ONE_OPERATOR,
    TOKEN_KERNELS,
    check_precision,
    choose_lstm,
    choose_token_encoder,
)

T = TypeVar("T")


class FastBiLM:
    """Computes a model in a precision, with what is kept of it from call to call."""

    def __init__(self, model: BidirectionalLM, prepared: "PreparedWeights") -> None:
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
        encoder, config = self._model.token_encoder, self._model.config
        if not isinstance(encoder, CharCnnEncoder):
            return encoder(*ids)
        case = self.case()

        def prepare() -> tuple[Any, Any]:
            kernel = TOKEN_KERNELS[choose_token_encoder(case, config)]
            return kernel, kernel.prepare(encoder, case)

        kept, forced = self._prepared.tokens, forced_kernels()
        with _float32_mode(case):
            if case.gradient:
                kernel, weights = prepare()
            else:
                kernel, weights = kept(encoder, prepare, case, forced)
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
        case = self.case()
        kernel, weights = self._lstm(case, batch_sizes)
        inputs = x_VH, forward_N, backward_N, batch_sizes, state
        with _float32_mode(case):
            return kernel.read(self._model, weights, *inputs, dropout)

    def layers(
        self,
        x_VH: Tensor,
        word_N: Tensor,
        reversed_N: Tensor,
        batch_sizes: Sequence[int],
        state: BiLMState | None = None,
        dropout: float = 0.0,
    ) -> tuple[Tensor, BiLMState]:
        """Return the layers of packed sentences, (L+1, N, D), and the state after them,
        as `BidirectionalLM.forward` does from token vectors on.

        Args:
            x_VH: Token vectors.
            word_N: The word at each packed position.
            reversed_N: The position that mirrors each one in its sentence.
            batch_sizes: Number of sentences that are longer than t, for each step t.
            state: What both directions start from; None for zeros.
            dropout: Rate on the input of every layer while training.
        """
        model = self._model
        kernel, weights = self._lstm(self.case(), batch_sizes)
        if kernel is native_lstm:
            return native_lstm.read_layers(
                model, weights, x_VH, word_N, reversed_N, batch_sizes, state
            )
        if state is None:
            weight = next(weights_of(model.forward_lstm))
            state = BiLMState.zeros(model.config, batch_sizes[0], weight)
        ahead, back, state = self.read(
            x_VH, word_N, word_N[reversed_N], batch_sizes, state, dropout
        )
        return model.join(x_VH[word_N], ahead, back, reversed_N), state

    def _lstm(self, case: Case, batch_sizes: Sequence[int]) -> tuple[Any, Any]:
        """Return the kernel of the LSTM layers, and its prepared weights: both are kept
        as long as the weights, the case and what is forced stay."""
        model, rows = self._model, sum(batch_sizes) / len(batch_sizes)

        def prepare() -> tuple[Any, Any]:
            kernel = LSTM_KERNELS[choose_lstm(case, model.config, rows)]
            return kernel, kernel.prepare(model, case)

        if case.gradient:
            return prepare()
        many = case.device == "cuda" and rows > MOST_BY_ONE_OPERATOR
        return self._prepared.layers(model, prepare, case, forced_kernels(), many)

    def case(self) -> Case:
        """Return the case that kernels are chosen by now."""
        return case_of(next(weights_of(self._model)), self._prepared.precision)


class Prepared(Generic[T]):
    """A value that is made of weights and settings once, until one of them changes.

    torch numbers the versions of a tensor: one more for each write to it, in place or
    by an optimizer. Two kinds of writes leave no trace there: those through `.data`,
    and those of torch's fused optimizers. So prepared weights are dropped, too,
    whenever a model is put into training mode or out of it.
    """

    def __init__(self) -> None:
        self._kept: tuple[object, object, T] | None = None

    def __call__(
        self, module: nn.Module, make: Callable[[], T], *settings: object
    ) -> T:
        """Return the value of `make` for a module's weights and these settings."""
        tensors = list(weights_of(module))
        key, kept = (settings, *map(key_of, tensors)), self._kept
        if kept is None or kept[0] != key:
            # Their memory is kept alive, or other weights may get its address.
            alive = [tensor.detach() for tensor in tensors]
            with torch.inference_mode(False), torch.no_grad():
                kept = self._kept = key, alive, make()
        return kept[2]

    @property
    def kept(self) -> T | None:
        """The value that was made last, whatever became of the weights since."""
        return None if self._kept is None else self._kept[2]

    def clear(self) -> None:
        """Drop the value."""
        self._kept = None

    def __reduce__(self) -> Any:
        """A copy, in this process or another, makes its own value."""
        return Prepared, ()


class PreparedWeights:
    """What is kept of a biLM that kernels compute: its precision, and the weights of
    the token encoder and of the LSTM layers as the kernels read them."""

    def __init__(self) -> None:
        self.precision: Precision = "float32"
        self.tokens, self.layers = Prepared[Any](), Prepared[Any]()

    def clear(self) -> None:
        """Drop the weights."""
        self.tokens.clear()
        self.layers.clear()


def weights_of(module: nn.Module) -> Iterator[Tensor]:
    """Yield all weights of a module, as `parameters` does in five times the time."""
    waiting: list[nn.Module | None] = [module]
    while waiting:
        part = waiting.pop()
        if part is not None:
            for weight in part._parameters.values():  # noqa: SLF001
                if weight is not None:
                    yield weight
            waiting.extend(part._modules.values())  # noqa: SLF001


def key_of(weight: Tensor) -> tuple[int, int, int]:
    """Return a key that changes when the weight is replaced or written to, even with
    the values that it has. It is valid as long as the weight is kept alive."""
    version = 0 if weight.is_inference() else weight._version  # noqa: SLF001
    return id(weight), weight.data_ptr(), version


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
