"""Prepared weights: the weights in the layout that a kernel reads.

They are prepared again when a weight changes. torch counts the writes to a tensor, in
place or by an optimizer. Two kinds of writes are not counted: through `.data`, and by
torch's fused optimizers. So prepared weights are also dropped whenever a model is put
into training mode or out of it.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from ...machine import Precision
from .kernel import is_traced

T = TypeVar("T")


class Prepared(Generic[T]):
    """A value that is computed from weights and settings, and reused until one of them
    changes."""

    def __init__(self) -> None:
        self._kept: tuple[object, object, T] | None = None

    def __call__(
        self, module: nn.Module, make: Callable[[], T], *settings: object
    ) -> T:
        """Return the value for a module's weights and for settings.

        Args:
            module: The module whose weights the value depends on.
            make: Computes the value.
            settings: Everything else that the value depends on.
        """
        if is_traced():  # tensors have no memory then, and nothing may be kept
            return make()
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


def weights_of(module: nn.Module) -> Iterator[Tensor]:
    """Yield all weights of a module. `module.parameters` takes five times as long."""
    for weight in module._parameters.values():  # noqa: SLF001
        if weight is not None:
            yield weight
    for part in module._modules.values():  # noqa: SLF001
        if part is not None:
            yield from weights_of(part)


def key_of(weight: Tensor) -> tuple[int, int, int]:
    """Return a key that changes when the weight is replaced or written to, even with
    equal values. It is valid while a reference to the weight is held."""
    version = 0 if weight.is_inference() else weight._version  # noqa: SLF001
    return id(weight), weight.data_ptr(), version
