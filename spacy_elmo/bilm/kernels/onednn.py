"""oneDNN's matrix multiplications, by operators that torch keeps for its own compiler.

They are private to torch, so a form that needs them is tried out before it is chosen
(matmul.py).

Shapes: M rows, K columns in, N columns out.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def pack(weight_KN: Tensor) -> Tensor:
    """Return a copy of a weight in the order that oneDNN reads it in."""
    operator = torch.ops.mkldnn._reorder_linear_weight.default  # noqa: SLF001
    return operator(weight_KN.t().contiguous())


def linear(
    x_MK: Tensor,
    weight_NK: Tensor,
    bias_N: Tensor | None = None,
) -> Tensor:
    """Return x W + b, (M, N), with a packed weight, or one transposed where it lies.
    It sums up in an order that does not depend on M."""
    operator = torch.ops.mkldnn._linear_pointwise.default  # noqa: SLF001
    padded, M = round_up(x_MK)
    return operator(padded, weight_NK, bias_N, "none", [], "")[:M]


def pack_int8(weight_NK: Tensor) -> Tensor:
    """Return a copy of a weight of 8 bits in the order that oneDNN reads it in."""
    return torch.ops.onednn.qlinear_prepack(weight_NK, None)


def linear_int8(
    x_MK: Tensor, packed: Tensor, scale_N: Tensor, zero_N: Tensor
) -> Tensor:
    """Return (x - 128) W scale in float32, (M, N), of x as uint8."""
    padded, M = round_up(x_MK)
    return torch.ops.onednn.qlinear_pointwise.default(
        padded, 1.0, 128, packed, scale_N, zero_N,
        None, 1.0, 0, torch.float32, "none", [], "",
    )[:M]  # fmt: skip


def round_up(x_MK: Tensor) -> tuple[Tensor, int]:
    """Return x filled up with rows of zeros to one of four sizes an octave, and its
    rows: for each size that it meets oneDNN makes code, in 3 ms and a megabyte, and
    keeps it. One row, which would be summed up in another order, takes the time of
    two."""
    M = x_MK.shape[0]
    missing = 1 if M == 1 else -M % (1 << max(2, M.bit_length() - 3))
    return (F.pad(x_MK, (0, 0, 0, missing)) if missing else x_MK), M
