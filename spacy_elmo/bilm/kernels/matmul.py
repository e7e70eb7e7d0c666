"""Matrix multiplications: with a weight that is rounded to its dtype once, for many
batches, and in training.

Shapes: M rows, K columns in, N columns out.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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


@contextmanager
def multiply_by(form: str) -> Iterator[None]:
    """Multiply the float32 matrices of training by a library while the body runs.

    torch uses oneDNN only where it allows rounding to 16 bits ("medium"). On processors
    with AVX-512 and without AMX oneDNN does not round: it computes in float32, and
    faster than MKL on an AMD EPYC (docs/kernels.md).

    Args:
        form: "onednn", or "torch" to leave the choice to torch.
    """
    if form == "torch":
        yield
        return
    mkldnn: Any = torch.backends.mkldnn
    backends = mkldnn.matmul, torch.backends.cuda.matmul
    each = [backend.fp32_precision for backend in backends]
    try:
        whole = torch.get_float32_matmul_precision()
    except RuntimeError:  # precisions were set for single backends, not for torch
        whole = None
    try:
        if whole is None:
            backends[0].fp32_precision = "bf16"
        else:
            torch.set_float32_matmul_precision("medium")
        yield
    finally:
        if whole is not None:
            torch.set_float32_matmul_precision(whole)
        for backend, precision in zip(backends, each):
            backend.fp32_precision = precision
