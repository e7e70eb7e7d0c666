"""x W + b with weights that stay the same from batch to batch.

On a CPU oneDNN reads a matrix that lies in the order of its kernels, so a copy in that
order is kept of every weight that is multiplied by few rows at a time. On an AMD EPYC
with AVX-512 that made multiplications with 4 to 64 rows two to four times as fast as
MKL's, and large ones, for which oneDNN reads the weight where it lies, twice.

Shapes: M rows, K columns in, N columns out.
"""

import torch
from torch import Tensor

from . import onednn
from .case import Case

# From so many rows on a packed copy brings less than a tenth.
MANY_ROWS = 128
# With fewer rows a small matrix is read as fast in any order, and MKL begins sooner.
FEW_ROWS = 4
SMALL = 1 << 20


class TorchMatmul:
    """A weight that torch itself multiplies by, and what other forms have in common."""

    def __init__(self, weight_KN: Tensor) -> None:
        self.weight_KN = weight_KN

    @staticmethod
    def can_run(case: Case) -> bool:
        """Return whether this form computes what is asked for."""
        return case.precision == "float32"

    def linear(
        self, x_MK: Tensor, bias_N: Tensor | None = None, *, total: int | None = None
    ) -> Tensor:
        """Return x W + b, (M, N). total: how many rows there are in all, where these
        are but a part of them."""
        if bias_N is None:
            return torch.mm(x_MK, self.weight_KN)
        return torch.addmm(bias_N, x_MK, self.weight_KN)

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        z_MN.addmm_(x_MK, self.weight_KN)


class CudaHalfMatmul(TorchMatmul):
    """A weight in float16 on a GPU."""

    def __init__(self, weight_KN: Tensor) -> None:
        super().__init__(weight_KN.half())

    @staticmethod
    def can_run(case: Case) -> bool:
        """Return whether this is half precision on a GPU."""
        return case.processor.device == "cuda" and case.precision == "half"

    def linear(
        self, x_MK: Tensor, bias_N: Tensor | None = None, *, total: int | None = None
    ) -> Tensor:
        """Return x W + b in float32."""
        bias_N = None if bias_N is None else bias_N.half()
        return super().linear(x_MK.half(), bias_N).float()

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        z_MN.add_(torch.mm(x_MK.half(), self.weight_KN))


class OneDnnMatmul(TorchMatmul):
    """A weight that oneDNN multiplies by in float32; MKL, if it is small and the rows
    are few.

    is_copy: whether the weight is a copy already, which need not stay. few_rows: with
    fewer rows a small weight is left to MKL.
    """

    def __init__(self, weight_KN: Tensor, *, is_copy: bool, few_rows: int) -> None:
        super().__init__(weight_KN)
        self.is_copy = is_copy
        self.few_rows = few_rows if weight_KN.numel() < SMALL else 0
        self.packed = onednn.pack(weight_KN) if is_copy else None
        if is_copy and not self.few_rows:
            del self.weight_KN

    @staticmethod
    def can_run(case: Case) -> bool:
        """Return whether this is float32 on a CPU where oneDNN is."""
        float32 = case.precision == "float32" and case.dtype == torch.float32
        return case.processor.onednn and float32

    def linear(
        self, x_MK: Tensor, bias_N: Tensor | None = None, *, total: int | None = None
    ) -> Tensor:
        """Return x W + b."""
        if len(x_MK) < self.few_rows:
            return super().linear(x_MK, bias_N)
        if not self.is_copy and (total or len(x_MK)) >= MANY_ROWS:
            return onednn.linear(x_MK, self.weight_KN.t(), bias_N)
        if self.packed is None:
            self.packed = onednn.pack(self.weight_KN)
        return onednn.linear(x_MK, self.packed, bias_N)

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        if len(x_MK) < self.few_rows:
            super().add_to(z_MN, x_MK)
        else:
            z_MN.add_(self.linear(x_MK))


class OneDnnBfloat16Matmul(TorchMatmul):
    """A weight that oneDNN multiplies by in bfloat16."""

    def __init__(self, weight_KN: Tensor) -> None:
        super().__init__(onednn.pack(weight_KN.bfloat16()))

    @staticmethod
    def can_run(case: Case) -> bool:
        """Return whether this is half precision on a CPU that has bfloat16."""
        processor = case.processor
        return case.precision == "half" and processor.onednn and processor.bfloat16

    def linear(
        self, x_MK: Tensor, bias_N: Tensor | None = None, *, total: int | None = None
    ) -> Tensor:
        """Return x W + b in float32."""
        bias_N = None if bias_N is None else bias_N.bfloat16()
        return onednn.linear(x_MK.bfloat16(), self.weight_KN, bias_N).float()

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        z_MN.add_(onednn.linear(x_MK.bfloat16(), self.weight_KN))


class OneDnnInt8Matmul(TorchMatmul):
    """A weight that oneDNN multiplies by in 8 bits, as for torch's compiler with
    quantised models."""

    def __init__(self, weight_KN: Tensor) -> None:
        weight_KN = weight_KN.float()
        scale_N = weight_KN.abs().amax(dim=0).div_(127).clamp_(min=1e-30)
        weight_NK = (weight_KN / scale_N).round_().to(torch.int8).t().contiguous()
        super().__init__(onednn.pack_int8(weight_NK))
        self.scale_N = scale_N
        self.zero_N = torch.zeros(len(scale_N), dtype=torch.int32)

    @staticmethod
    def can_run(case: Case) -> bool:
        """Return whether this is int8 on a CPU that has it."""
        return case.precision == "int8" and case.processor.int8

    def linear(
        self, x_MK: Tensor, bias_N: Tensor | None = None, *, total: int | None = None
    ) -> Tensor:
        """Return x W + b in float32."""
        y_MN, scale_M1 = self._multiply(x_MK)
        y_MN.mul_(scale_M1)
        return y_MN if bias_N is None else y_MN.add_(bias_N)

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        y_MN, scale_M1 = self._multiply(x_MK)
        z_MN.addcmul_(y_MN, scale_M1)

    def _multiply(self, x_MK: Tensor) -> tuple[Tensor, Tensor]:
        scale_M1 = x_MK.abs().amax(dim=1, keepdim=True).div_(127).clamp_(min=1e-30)
        low_MK = (x_MK / scale_M1).add_(128.5).to(torch.uint8)  # rounds, being positive
        y_MN = onednn.linear_int8(low_MK, self.weight_KN, self.scale_N, self.zero_N)
        return y_MN, scale_M1


# From the most particular to what always runs.
FORMS: dict[str, type[TorchMatmul]] = {
    "onednn_int8": OneDnnInt8Matmul,
    "onednn_bfloat16": OneDnnBfloat16Matmul,
    "cuda_float16": CudaHalfMatmul,
    "onednn": OneDnnMatmul,
    "torch": TorchMatmul,
}


def prepare(
    weight_KN: Tensor, *, form: str, exact: bool = False, is_copy: bool = False
) -> TorchMatmul:
    """Return a weight, prepared to be multiplied by.

    Args:
        weight_KN: The weight.
        form: One of FORMS.
        exact: Make a row's result independent of the other rows, bit for bit: always by
            oneDNN then, whose order of summation does not depend on their number.
        is_copy: Whether the weight is a copy already, which need not stay.
    """
    weight_KN = weight_KN.detach()
    if form == "onednn":
        few_rows = 0 if exact else FEW_ROWS
        return OneDnnMatmul(weight_KN, is_copy=is_copy, few_rows=few_rows)
    return FORMS[form](weight_KN)
