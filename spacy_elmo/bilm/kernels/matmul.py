"""Products with a weight that is rounded to its dtype once, for many batches.

Shapes: M rows, K columns in, N columns out.
"""

import torch
from torch import Tensor


def linear(x_MK: Tensor, weight_KN: Tensor, bias_N: Tensor | None = None) -> Tensor:
    """Return x W + b, (M, N), multiplied in the dtype of W, in the dtype of x."""
    low = weight_KN.dtype
    if x_MK.dtype != low:
        low_N = None if bias_N is None else bias_N.to(low)
        return linear(x_MK.to(low), weight_KN, low_N).to(x_MK.dtype)
    if bias_N is None:
        return torch.mm(x_MK, weight_KN)
    return torch.addmm(bias_N, x_MK, weight_KN)


def add_product(z_MN: Tensor, x_MK: Tensor, weight_KN: Tensor) -> None:
    """Add x W to z, in place."""
    if x_MK.dtype == weight_KN.dtype:
        z_MN.addmm_(x_MK, weight_KN)
    else:
        z_MN.add_(linear(x_MK, weight_KN))
