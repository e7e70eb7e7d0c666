"""oneDNN's matrix multiplications, by operators that torch keeps for its own compiler.

They are private to torch, so each is tried out once on matrices of 1 x 1; where that
fails, kernels that need it are not chosen.

Shapes: M rows, K columns in, N columns out.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def is_enabled() -> bool:
    """Return whether torch has oneDNN and the user left it on."""
    return torch.backends.mkldnn.is_available() and bool(torch.backends.mkldnn.enabled)


def linear_works() -> bool:
    """Return whether `pack` and `linear` work."""
    return _is_one(lambda one: linear(one, pack(one)))


def linear_int8_works() -> bool:
    """Return whether `pack_int8` and `linear_int8` work."""

    def multiply(one: Tensor) -> Tensor:
        int8, uint8 = one.to(torch.int8), (one + 128).to(torch.uint8)
        zero = torch.zeros(1, dtype=torch.int32)
        return linear_int8(uint8, pack_int8(int8), one[0], zero)

    return _is_one(multiply)


@torch.no_grad()
def _is_one(multiply: Callable[[Tensor], Tensor]) -> bool:
    try:
        return bool(multiply(torch.ones(1, 1)).item() == 1)
    except (AttributeError, RuntimeError, TypeError, NotImplementedError):
        return False


def pack(weight_KN: Tensor) -> Tensor:
    """Return a copy of a weight in the order that oneDNN reads it in."""
    operator = torch.ops.mkldnn._reorder_linear_weight.default  # noqa: SLF001
    return operator(weight_KN.t().contiguous())


def linear(x_MK: Tensor, weight_NK: Tensor, bias_N: Tensor | None = None) -> Tensor:
    """Return x W + b, (M, N), with a packed weight, or one transposed where it lies."""
    operator = torch.ops.mkldnn._linear_pointwise.default  # noqa: SLF001
    padded, M = _round_up(x_MK)
    return operator(padded, weight_NK, bias_N, "none", [], "")[:M]


def pack_int8(weight_NK: Tensor) -> Tensor:
    """Return a copy of a weight of 8 bits in the order that oneDNN reads it in."""
    return torch.ops.onednn.qlinear_prepack(weight_NK, None)


def linear_int8(
    x_MK: Tensor, packed: Tensor, scale_N: Tensor, zero_N: Tensor
) -> Tensor:
    """Return (x - 128) W scale in float32, (M, N), of x as uint8."""
    padded, M = _round_up(x_MK)
    return torch.ops.onednn.qlinear_pointwise.default(
        padded, 1.0, 128, packed, scale_N, zero_N,
        None, 1.0, 0, torch.float32, "none", [], "",
    )[:M]  # fmt: skip


def _round_up(x_MK: Tensor) -> tuple[Tensor, int]:
    """Return x filled up with rows of zeros to one of four sizes an octave, and its
    rows: for each size that it meets oneDNN makes a megabyte of code, and keeps it."""
    M = x_MK.shape[0]
    missing = -M % (1 << max(2, M.bit_length() - 3))
    return (F.pad(x_MK, (0, 0, 0, missing)) if missing else x_MK), M
