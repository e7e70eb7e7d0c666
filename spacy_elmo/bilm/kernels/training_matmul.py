"""How matrices are multiplied while training."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def multiply_by(form: str) -> Iterator[None]:
    """Multiply float32 matrices of training by "onednn" inside, or as "torch" does.

    torch hands them to oneDNN only where they may be rounded to 16 bits ("medium").
    With AVX-512 and without AMX that never pays, so oneDNN keeps float32, and is still
    2.2 times as fast as MKL on an AMD EPYC (training a biLM 1.7 times).
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
    except RuntimeError:  # precisions were set for single backends: torch can't say
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
