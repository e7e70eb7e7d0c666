"""Weights in the form that a kernel reads, made again when they change.

torch numbers the versions of a tensor: one more for each write to it, in place or by an
optimizer. Two kinds of writes leave no trace there: those through `.data`, and those of
torch's fused optimizers. So prepared weights are dropped, too, whenever a model is put
into training mode or out of it.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from ...machine import Precision

T = TypeVar("T")


class Prepared(Generic[T]):
    """A value that is made of weights and settings once, until one of them changes."""

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
    for weight in module._parameters.values():  # noqa: SLF001
        if weight is not None:
            yield weight
    for part in module._modules.values():  # noqa: SLF001
        if part is not None:
            yield from weights_of(part)


def key_of(weight: Tensor) -> tuple[int, int, int]:
    """Return a key that changes when the weight is replaced or written to, even with
    the values that it has. It is valid as long as the weight is kept alive."""
    version = 0 if weight.is_inference() else weight._version  # noqa: SLF001
    return id(weight), weight.data_ptr(), version
