"""Which library multiplies matrices in training."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def multiply_by(form: str) -> Iterator[None]:
    """Multiply float32 matrices by a library while the body runs.

    torch uses oneDNN only where it allows rounding to 16 bits ("medium"). On processors
    with AVX-512 and without AMX oneDNN does not round: it computes in float32, and
    faster than MKL on an AMD EPYC (docs/kernels.md).

    Args:
        form: "onednn", or "torch" to leave the choice to torch.
    """
    mkldnn: Any = getattr(torch.backends.mkldnn, "matmul", None)
    backends = mkldnn, torch.backends.cuda.matmul
    known = all(hasattr(backend, "fp32_precision") for backend in backends)
    if not known or form == "torch":
        yield
        return
    each = [backend.fp32_precision for backend in backends]
    try:
        whole = torch.get_float32_matmul_precision()
    except RuntimeError:  # precisions were set for single backends, not for torch
        whole = None
    try:
        if whole is None:
            mkldnn.fp32_precision = "bf16"
        else:
            torch.set_float32_matmul_precision("medium")
        yield
    finally:
        if whole is not None:
            torch.set_float32_matmul_precision(whole)
        for backend, precision in zip(backends, each):
            backend.fp32_precision = precision
