"""Products with weights that stay the same from batch to batch, in three precisions.

On a CPU oneDNN reads a matrix that lies in the order of its kernels, so a copy in that
order is kept of every matrix that few rows at a time are multiplied by. On an AMD EPYC
with AVX-512 that made products with 4 to 64 rows two to four times as fast as MKL's,
and large ones, for which oneDNN reads the weights where they lie, twice.

    float32  as torch computes it, up to rounding
    half     factors and results rounded to 16 bits, summed up in float32
    int8     factors rounded to 8 bits, by the largest of each column of the weight and
             of each row of x, so that no row depends on the others; summed up exactly

Shapes: M rows, K columns in, N columns out.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import Errors
from .memo import pinned, state_of

Precision = Literal["float32", "half", "int8"]
PRECISIONS = ("float32", "half", "int8")

# From so many rows on a kept copy brings less than a tenth.
MANY_ROWS = 128
# With fewer rows a small matrix is read as fast in any order, and MKL begins sooner.
FEW_ROWS = 4
SMALL = 1 << 20


def check_name(precision: str) -> None:
    """Raises ValueError [EL073]."""
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise ValueError(Errors.EL073.format(found=precision, known=known))


def check_precision(precision: str, device: torch.device) -> None:
    """Raises ValueError [EL073] for a precision that is not known, [EL077] for one that
    the processor has no instructions for: it would be slower, not faster."""
    check_name(precision)
    if device.type == "cuda":
        has = precision != "int8"
    else:
        has = precision == "float32" or _has_onednn()
        if precision == "half":
            has &= _cpu_has_bfloat16()
        if precision == "int8":
            has &= _cpu_has("vnni")
    if not has:
        raise ValueError(Errors.EL077.format(precision=precision, device=device.type))


def check_bfloat16(device: torch.device) -> None:
    """Of training. Raises ValueError [EL077] as `check_precision`."""
    if device.type == "cpu" and not _cpu_has_bfloat16():
        raise ValueError(Errors.EL077.format(precision="bfloat16", device="cpu"))


def _cpu_has(instructions: str) -> bool:
    return bool(getattr(torch.cpu, f"_is_{instructions}_supported", lambda: False)())


def _cpu_has_bfloat16() -> bool:
    return _cpu_has("avx512_bf16") or _cpu_has("amx_tile")


def _has_onednn() -> bool:
    """Whether this torch has the products that its own compiler uses on a CPU."""
    return bool(
        torch.backends.mkldnn.is_available()
        and torch.backends.mkldnn.enabled  # the user's switch
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


@contextmanager
def onednn_matmul() -> Iterator[None]:
    """Inside, torch's own products of float32 matrices are oneDNN's on a CPU too.

    It hands them over only where oneDNN may round them to 16 bits. With AVX-512 that
    never pays, so oneDNN keeps float32, and is still 2.2 times as fast as MKL on an AMD
    EPYC (training a biLM 1.7 times). Elsewhere nothing changes.
    tests/bilm/test_products.py holds the rounding to float32's.
    """
    matmul: Any = getattr(torch.backends.mkldnn, "matmul", None)
    has = _has_onednn() and hasattr(matmul, "fp32_precision")
    if not has or not _cpu_has("avx512") or _cpu_has("amx_tile"):
        yield
        return
    before = matmul.fp32_precision
    matmul.fp32_precision = "bf16"
    try:
        yield
    finally:
        matmul.fp32_precision = before


if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
    _linear = torch.ops.mkldnn._linear_pointwise.default
    _reorder = torch.ops.mkldnn._reorder_linear_weight.default


class Factor:
    """A weight that torch itself multiplies by."""

    def __init__(self, weight_KN: Tensor) -> None:
        self.weight_KN: Any = weight_KN

    def times(
        self, x_MK: Tensor, bias_N: Tensor | None = None, *, of: int | None = None
    ) -> Tensor:
        """x W + b, (M, N). of: all rows, if these are but a part of them."""
        return _plain(x_MK, self.weight_KN, bias_N)

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """z += x W, in place."""
        z_MN.addmm_(x_MK, self.weight_KN)


class HalfFactor(Factor):
    """One in float16, on a GPU."""

    def __init__(self, weight_KN: Tensor) -> None:
        super().__init__(weight_KN.half())

    def times(
        self, x_MK: Tensor, bias_N: Tensor | None = None, *, of: int | None = None
    ) -> Tensor:
        bias_N = None if bias_N is None else bias_N.half()
        return _plain(x_MK.half(), self.weight_KN, bias_N).float()

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        z_MN.add_(torch.mm(x_MK.half(), self.weight_KN))


class OneDnnFactor(Factor):
    """One that oneDNN reads, and MKL if it is small and the rows are few."""

    def __init__(
        self, weight_KN: Tensor, *, own: bool, few_rows: int = FEW_ROWS
    ) -> None:
        """own: whether the weight is a copy already, which need not stay as it is."""
        super().__init__(weight_KN)
        self.is_small = weight_KN.numel() < SMALL
        self.few_rows = few_rows
        self.packed = _pack(weight_KN) if own else None
        self.own = own
        if own and not self.is_small:
            self.weight_KN = None

    def times(
        self, x_MK: Tensor, bias_N: Tensor | None = None, *, of: int | None = None
    ) -> Tensor:
        if self.is_small and len(x_MK) < self.few_rows:
            return super().times(x_MK, bias_N)
        if not self.own and (of or len(x_MK)) >= MANY_ROWS:
            return _onednn(x_MK, self.weight_KN.t(), bias_N)
        if self.packed is None:
            self.packed = _pack(self.weight_KN)
        return _onednn(x_MK, self.packed, bias_N)

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        if self.is_small and len(x_MK) < self.few_rows:
            super().add_to(z_MN, x_MK)
        else:
            z_MN.add_(self.times(x_MK))


class OneDnnHalfFactor(Factor):
    """One in bfloat16."""

    def __init__(self, weight_KN: Tensor) -> None:
        super().__init__(_pack(weight_KN.bfloat16()))

    def times(
        self, x_MK: Tensor, bias_N: Tensor | None = None, *, of: int | None = None
    ) -> Tensor:
        bias_N = None if bias_N is None else bias_N.bfloat16()
        return _onednn(x_MK.bfloat16(), self.weight_KN, bias_N).float()

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        z_MN.add_(_onednn(x_MK.bfloat16(), self.weight_KN, None))


class OneDnnInt8Factor(Factor):
    """One in 8 bits: the products that torch's compiler makes of quantised models."""

    def __init__(self, weight_KN: Tensor) -> None:
        weight_KN = weight_KN.float()
        scale_N = weight_KN.abs().amax(dim=0).div_(127).clamp_(min=1e-30)
        weight_NK = (weight_KN / scale_N).round_().to(torch.int8).t().contiguous()
        super().__init__(torch.ops.onednn.qlinear_prepack(weight_NK, None))
        self.scale_N = scale_N
        self.zero_N = torch.zeros(len(scale_N), dtype=torch.int32)

    def times(
        self, x_MK: Tensor, bias_N: Tensor | None = None, *, of: int | None = None
    ) -> Tensor:
        y_MN, scale_M1 = self._product(x_MK)
        y_MN.mul_(scale_M1)
        return y_MN if bias_N is None else y_MN.add_(bias_N)

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        y_MN, scale_M1 = self._product(x_MK)
        z_MN.addcmul_(y_MN, scale_M1)

    def _product(self, x_MK: Tensor) -> tuple[Tensor, Tensor]:
        scale_M1 = x_MK.abs().amax(dim=1, keepdim=True).div_(127).clamp_(min=1e-30)
        q_MK = (x_MK / scale_M1).add_(128.5).to(torch.uint8)  # rounds: cuts off above 0
        y_MN = torch.ops.onednn.qlinear_pointwise.default(
            _fill_up(q_MK), 1.0, 128, self.weight_KN, self.scale_N, self.zero_N,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return y_MN[: len(x_MK)], scale_M1


def make_factor(
    weight_KN: Tensor, precision: Precision, *, own: bool, few_rows: int
) -> Factor:
    """Raises ValueError [EL077]."""
    check_precision(precision, weight_KN.device)
    if weight_KN.device.type != "cpu":
        return HalfFactor(weight_KN) if precision == "half" else Factor(weight_KN)
    if precision == "half":
        return OneDnnHalfFactor(weight_KN)
    if precision == "int8":
        return OneDnnInt8Factor(weight_KN)
    if _has_onednn() and weight_KN.dtype == torch.float32:
        return OneDnnFactor(weight_KN, own=own, few_rows=few_rows)
    return Factor(weight_KN)


class Product(nn.Module):
    """x W + b; with a gradient as torch does it, without one as fast as can be.

    prepare: what is done to the weight once, before it is used without gradients.
    exact: whether a row's product is the same to the last bit with any other rows
    beside it: by oneDNN alone then, which adds up in one order whatever their number.
    """

    def __init__(self, prepare: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.prepare = prepare
        self.precision: Precision = "float32"
        self.exact = False
        self._made: tuple[Any, Any, Factor] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy, in this process or another, makes its own."""
        return {**self.__dict__, "_made": None}

    def forward(
        self, x_MK: Tensor, weight_KN: Tensor, bias_N: Tensor | None = None
    ) -> Tensor:
        """(M, N)."""
        if torch.is_grad_enabled():
            return _plain(x_MK, weight_KN, bias_N)
        return self.factor(weight_KN).times(x_MK, bias_N)

    def factor(self, weight_KN: Tensor) -> Factor:
        """The weight prepared, anew when it has changed."""
        state = *state_of([weight_KN]), self.precision, self.exact, _has_onednn()
        made = self._made
        if made is None or made[0] != state:
            weight, own = weight_KN.detach(), self.prepare is not None
            if self.prepare is not None:
                weight = self.prepare(weight)
            few_rows = 0 if self.exact else FEW_ROWS
            factor = make_factor(weight, self.precision, own=own, few_rows=few_rows)
            self._made = made = state, pinned([weight_KN]), factor
        return made[2]


def _plain(x_MK: Tensor, weight_KN: Tensor, bias_N: Tensor | None) -> Tensor:
    if bias_N is None:
        return torch.mm(x_MK, weight_KN)
    return torch.addmm(bias_N, x_MK, weight_KN)


def _onednn(x_MK: Tensor, weight_NK: Tensor, bias_N: Tensor | None) -> Tensor:
    return _linear(_fill_up(x_MK), weight_NK, bias_N, "none", [], "")[: len(x_MK)]


def _fill_up(x_MK: Tensor) -> Tensor:
    """Rows of zeros up to one of four sizes an octave: for each size that it meets
    oneDNN makes code, a megabyte of it, and keeps it."""
    M = len(x_MK)
    missing = -M % (1 << max(2, M.bit_length() - 3))
    return F.pad(x_MK, (0, 0, 0, missing)) if missing else x_MK


def _pack(weight_KN: Tensor) -> Tensor:
    return _reorder(weight_KN.t().contiguous())
