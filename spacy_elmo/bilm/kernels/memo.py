"""Values that are computed from weights, and computed again when the weights change.

torch numbers the versions of a tensor: one more for each write to it, in place or by an
optimizer. Its fused optimizers are the exception, so two more things are looked at:
how many gradients came to a weight, and, as long as it has one, the sum of its bits.

So a value is never used after a change of its weights, with two exceptions: writes
through `.data`, and a step of a fused optimizer with gradients that were put into
`.grad` by hand and removed again before the value is next asked for.
"""

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Derived(Generic[T]):
    """A value that is made from weights, and from settings, once, until they change."""

    def __init__(self, make: Callable[..., T]) -> None:
        self._make = make
        self._kept: tuple[object, object, T] | None = None

    def __call__(self, *weights: Tensor, **settings: object) -> T:
        """Return the value for these weights and settings."""
        state, kept = ([state_of(w) for w in weights], settings), self._kept
        if kept is None or kept[0] != state:
            # Weights and their memory are kept alive, or others may get their address.
            alive = weights, [weight.detach() for weight in weights]
            kept = self._kept = state, alive, self._make(*weights, **settings)
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
        return Derived, (self._make,)


def state_of(weight: Tensor) -> tuple[object, ...]:
    """Return what differs whenever a weight is replaced or changed, also back to what
    it was, as long as the weight is kept alive."""
    version = 0 if weight.is_inference() else weight._version  # noqa: SLF001
    state = id(weight), weight.data_ptr(), version
    if not (weight.requires_grad and weight.is_leaf):
        return state
    gradients = _gradients.get(id(weight))
    if gradients is None or gradients.weight() is not weight:
        gradients = _gradients[id(weight)] = _Gradients(weight)
    if weight.grad is None:
        return *state, gradients.n
    bits = weight.detach().view(_BITS[weight.element_size()]).sum()
    return *state, gradients.n, int(bits)


class _Gradients:
    """Counts the gradients that come to a weight from now on."""

    def __init__(self, weight: Tensor) -> None:
        number, self.n = id(weight), 0
        self.weight = weakref.ref(weight, lambda _: _gradients.pop(number, None))
        weight.register_post_accumulate_grad_hook(self._count)

    def _count(self, weight: Tensor) -> None:
        self.n += 1


# By the id of the weight. As an attribute of it they would be copied without the hook.
_gradients: dict[int, _Gradients] = {}
