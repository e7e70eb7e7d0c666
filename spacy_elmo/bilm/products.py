"""Products with weights that stay the same from batch to batch.

On a CPU oneDNN reads a matrix that lies in the order of its kernels, so a copy in that
order is kept of every matrix that few rows are multiplied by at a time. On a two-core
AMD EPYC with AVX-512 that made products with 4 to 64 rows two to four times as fast as
MKL's, and large ones, which oneDNN reads where they lie, twice.

Shapes: M rows, K columns in, N columns out.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import Errors

Precision = Literal["float32", "half"]
PRECISIONS = ("float32", "half")

# From so many rows on a kept copy brings less than a tenth.
MANY_ROWS = 128
# With fewer rows a small matrix is read as fast in any order, and MKL begins sooner.
FEW_ROWS = 4
SMALL = 1 << 20


def half_type(device: torch.device) -> torch.dtype:
    """The 16-bit floats that a device computes with.

    Raises ValueError [EL077] if it has none or is slower with them.
    """
    if device.type == "cuda":
        return torch.float16
    known = torch.backends.cpu.get_cpu_capability()
    if _has_onednn() and (
        torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    ):
        return torch.bfloat16
    raise ValueError(Errors.EL077.format(device=f"CPU ({known})"))


def _has_onednn() -> bool:
    """Whether this torch has the products that its own compiler uses on a CPU."""
    return bool(
        torch.backends.mkldnn.is_available()
        and torch.backends.mkldnn.enabled  # the user's switch
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


if _has_onednn():
    _linear = torch.ops.mkldnn._linear_pointwise.default
    _reorder = torch.ops.mkldnn._reorder_linear_weight.default


class Factor:
    """A weight as it is used without gradients, in the forms that it is read in."""

    def __init__(
        self, weight_KN: Tensor, *, precision: Precision, onednn: bool, own: bool
    ) -> None:
        """own: whether the weight is a copy already, which need not stay as it is."""
        is_small = weight_KN.numel() < SMALL
        self.dtype = weight_KN.dtype
        if precision == "half":
            self.dtype = half_type(weight_KN.device)
            weight_KN, own, is_small = weight_KN.to(self.dtype), True, False
        self.weight_KN: Any = weight_KN  # None where it is not used
        self.packed: Tensor | None = None
        self.own = own
        self.onednn = (
            onednn
            and weight_KN.device.type == "cpu"
            and self.dtype in (torch.float32, torch.bfloat16)
        )
        self.few_rows = FEW_ROWS if is_small else 0
        if self.onednn and own:
            self.packed = _pack(weight_KN)
            if not is_small:
                self.weight_KN = None

    def times(
        self, x_MK: Tensor, bias_N: Tensor | None = None, *, of: int | None = None
    ) -> Tensor:
        """x W + b, (M, N). of: all rows, if these are but a part of them."""
        if x_MK.dtype != self.dtype:
            x_MK = x_MK.to(self.dtype)
            bias_N = None if bias_N is None else bias_N.to(self.dtype)
        if self._is_plain(x_MK):
            return _plain(x_MK, self.weight_KN, bias_N)
        M = len(x_MK)
        if not self.own and (of or M) >= MANY_ROWS:
            weight_NK = self.weight_KN.t()
        else:
            if self.packed is None:
                self.packed = _pack(self.weight_KN)
            weight_NK = self.packed
        x_MK = F.pad(x_MK, (0, 0, 0, _round_up(M) - M))
        return _linear(x_MK, weight_NK, bias_N, "none", [], "")[:M]

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """z += x W, in place."""
        if self.dtype == z_MN.dtype and self._is_plain(x_MK):
            z_MN.addmm_(x_MK, self.weight_KN)
        else:
            z_MN.add_(self.times(x_MK))

    def _is_plain(self, x_MK: Tensor) -> bool:
        return not self.onednn or len(x_MK) < self.few_rows


class Product(nn.Module):
    """x W + b; with a gradient as torch does it, without one as fast as can be.

    prepare: what is done to the weight once, before it is used without gradients.
    """

    def __init__(self, prepare: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.prepare = prepare
        self.precision: Precision = "float32"
        self._factor: tuple[tuple[Any, ...], Tensor, Factor] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy, in this process or another, makes its own."""
        return {**super().__getstate__(), "_factor": None}

    def forward(
        self, x_MK: Tensor, weight_KN: Tensor, bias_N: Tensor | None = None
    ) -> Tensor:
        """(M, N)."""
        if torch.is_grad_enabled():
            return _plain(x_MK, weight_KN, bias_N)
        return self.factor(weight_KN).times(x_MK, bias_N).to(x_MK.dtype)

    def factor(self, weight_KN: Tensor) -> Factor:
        """The weight prepared, anew when it has changed."""
        onednn = _has_onednn()
        made_from = weight_KN.data_ptr(), weight_KN._version, self.precision, onednn
        if (
            self._factor is None
            or self._factor[0] != made_from
            or self._factor[1] is not weight_KN
        ):
            weight = weight_KN.detach()
            factor = Factor(
                weight if self.prepare is None else self.prepare(weight),
                precision=self.precision,
                onednn=onednn,
                own=self.prepare is not None,
            )
            # With the weight itself, so that no other takes its place in memory.
            self._factor = made_from, weight_KN, factor
        return self._factor[2]


def _plain(x_MK: Tensor, weight_KN: Tensor, bias_N: Tensor | None) -> Tensor:
    if bias_N is None:
        return torch.mm(x_MK, weight_KN)
    return torch.addmm(bias_N, x_MK, weight_KN)


def _round_up(M: int) -> int:
    """Four sizes an octave: for each size that it meets oneDNN makes code, a megabyte
    of it, and keeps it."""
    step = 1 << max(2, M.bit_length() - 3)
    return -(-M // step) * step


def _pack(weight_KN: Tensor) -> Tensor:
    return _reorder(weight_KN.t().contiguous())
