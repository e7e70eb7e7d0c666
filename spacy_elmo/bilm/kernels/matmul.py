"""x W + b with weights that stay the same from batch to batch, and for training.

On a CPU oneDNN reads a matrix that lies in the order of its kernels, so a copy in that
order is kept of every weight that is multiplied by few rows at a time. On an AMD EPYC
with AVX-512 that made multiplications with 4 to 64 rows two to four times as fast as
MKL's, and large ones, for which oneDNN reads the weight where it lies, twice.

Shapes: M rows, K columns in, N columns out.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from . import onednn
from .processor import processor_of

# From so many rows on a packed copy brings less than a tenth.
MANY_ROWS = 128
# With fewer rows a small matrix is read as fast in any order, and MKL begins sooner.
FEW_ROWS = 4
SMALL = 1 << 20


class TorchMatmul:
    """A weight that torch itself multiplies by, and the base of the other forms."""

    def __init__(self, weight_KN: Tensor) -> None:
        self.weight_KN = weight_KN

    def at(self, rows: int) -> "TorchMatmul":
        """Return what multiplies so many rows: use its functions below."""
        return self

    def linear(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        """Return x W + b, (M, N), of x's dtype."""
        if bias_N is None:
            return torch.mm(x_MK, self.weight_KN)
        return torch.addmm(bias_N, x_MK, self.weight_KN)

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        z_MN.addmm_(x_MK, self.weight_KN)


class HalfMatmul(TorchMatmul):
    """A weight in 16 bits: bfloat16 by oneDNN on a CPU, float16 by torch on a GPU."""

    def __init__(self, weight_KN: Tensor) -> None:
        self.on_cpu = weight_KN.device.type == "cpu"
        self.dtype = torch.bfloat16 if self.on_cpu else torch.float16
        low_KN = weight_KN.to(self.dtype)
        super().__init__(onednn.pack(low_KN) if self.on_cpu else low_KN)

    def linear(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        """Return x W + b in float32."""
        return self._multiply(x_MK, bias_N).float()

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        z_MN.add_(self._multiply(x_MK))

    def _multiply(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        low_N = None if bias_N is None else bias_N.to(self.dtype)
        if self.on_cpu:
            return onednn.linear(x_MK.to(self.dtype), self.weight_KN, low_N)
        return super().linear(x_MK.to(self.dtype), low_N)


class Int8Matmul(TorchMatmul):
    """A weight that oneDNN multiplies by in 8 bits, as for torch's compiler with
    quantised models."""

    def __init__(self, weight_KN: Tensor) -> None:
        weight_KN = weight_KN.float()
        self.scale_N = weight_KN.abs().amax(dim=0).div_(127).clamp_(min=1e-30)
        self.zero_N = torch.zeros(len(self.scale_N), dtype=torch.int32)
        low_KN = (weight_KN / self.scale_N).round_().to(torch.int8)
        super().__init__(onednn.pack_int8(low_KN.t().contiguous()))

    def linear(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        """Return x W + b in float32."""
        y_MN, scale_M1 = self._multiply(x_MK)
        y_MN.mul_(scale_M1)
        return y_MN if bias_N is None else y_MN.add_(bias_N)

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        z_MN.addcmul_(*self._multiply(x_MK))

    def _multiply(self, x_MK: Tensor) -> tuple[Tensor, Tensor]:
        scale_M1 = x_MK.abs().amax(dim=1, keepdim=True).div_(127).clamp_(min=1e-30)
        low_MK = (x_MK / scale_M1).add_(128.5).to(torch.uint8)  # rounds, being positive
        y_MN = onednn.linear_int8(low_MK, self.weight_KN, self.scale_N, self.zero_N)
        return y_MN, scale_M1


class OneDnnMatmul(TorchMatmul):
    """A weight that oneDNN multiplies by in float32; MKL, if it is small and the rows
    are few.

    exact: Make a row's result independent of the other rows, bit for bit: always by
    oneDNN then, whose order of summation does not depend on their number. is_copy:
    Whether the weight is a copy already, which need not stay.
    """

    def __init__(self, weight_KN: Tensor, exact: bool, is_copy: bool) -> None:
        super().__init__(weight_KN)
        self.few_rows = 0 if exact or weight_KN.numel() >= SMALL else FEW_ROWS
        self.is_copy = is_copy
        self.packed = _PackedMatmul(onednn.pack(weight_KN)) if is_copy else None
        if is_copy and not self.few_rows:
            del self.weight_KN

    def at(self, rows: int) -> TorchMatmul:
        """Return what multiplies so many rows."""
        if rows < self.few_rows:
            return TorchMatmul(self.weight_KN)
        if rows >= MANY_ROWS and not self.is_copy:
            return _PackedMatmul(self.weight_KN.t())  # is read where it lies
        if self.packed is None:
            self.packed = _PackedMatmul(onednn.pack(self.weight_KN))
        return self.packed


class _PackedMatmul(TorchMatmul):
    """A weight in an order that oneDNN reads."""

    def linear(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        return onednn.linear(x_MK, self.weight_KN, bias_N)

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        z_MN.add_(onednn.linear(x_MK, self.weight_KN))


FORMS: dict[str, type[TorchMatmul]] = {
    "onednn_int8": Int8Matmul,
    "onednn_bfloat16": HalfMatmul,
    "cuda_float16": HalfMatmul,
    "onednn": OneDnnMatmul,
    "torch": TorchMatmul,
}


def prepare(
    weight_KN: Tensor, *, form: str, exact: bool = False, is_copy: bool = False
) -> TorchMatmul:
    """Return a weight in one of FORMS, prepared to be multiplied by. exact, is_copy: as
    for `OneDnnMatmul`."""
    weight_KN = weight_KN.detach()
    if form == "onednn":
        return OneDnnMatmul(weight_KN, exact, is_copy)
    return FORMS[form](weight_KN)


@contextmanager
def onednn_for_training(device: torch.device) -> Iterator[None]:
    """Let oneDNN multiply torch's float32 matrices inside, on a CPU.

    torch hands them over only where they may be rounded to 16 bits ("medium"). With
    AVX-512 and without AMX that never pays, so oneDNN keeps float32, and is still 2.2
    times as fast as MKL on an AMD EPYC (training a biLM 1.7 times). On other processors
    and on a GPU nothing changes.
    """
    mkldnn: Any = getattr(torch.backends.mkldnn, "matmul", None)
    backends = mkldnn, torch.backends.cuda.matmul
    known = all(hasattr(backend, "fp32_precision") for backend in backends)
    if not known or not processor_of(device).avx512:
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
