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
    return (
        torch.backends.mkldnn.is_available()
        and torch.backends.mkldnn.enabled  # the user's switch
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


class Product(nn.Module):
    """x W + b; with a gradient as torch does it, without one as fast as can be.

    prepare: what is done to the weight once, before it is used without gradients.
    """

    def __init__(self, prepare: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.prepare = prepare
        self.precision: Precision = "float32"
        self._kept: dict[str, tuple[Tensor, int, int, Tensor]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """A copy, in this process or another, makes its own."""
        return {**super().__getstate__(), "_kept": {}}  # type: ignore[misc]

    def forward(
        self, x_MK: Tensor, weight_KN: Tensor, bias_N: Tensor | None = None
    ) -> Tensor:
        """(M, N)."""
        if torch.is_grad_enabled():
            return _plain(x_MK, weight_KN, bias_N)
        if self.precision == "half":
            return self._in_half(x_MK, weight_KN, bias_N)
        if self._is_plain(x_MK, weight_KN):
            return _plain(x_MK, self._prepared(weight_KN), bias_N)
        if self.prepare is None and len(x_MK) >= MANY_ROWS:
            return _onednn(x_MK, weight_KN.t(), bias_N)
        return _onednn(x_MK, self._packed(weight_KN), bias_N)

    def add_to(self, z_MN: Tensor, x_MK: Tensor, weight_KN: Tensor) -> None:
        """z += x W, in place."""
        if self.precision == "float32" and self._is_plain(x_MK, weight_KN):
            z_MN.addmm_(x_MK, self._prepared(weight_KN))
        else:
            z_MN.add_(self.forward(x_MK, weight_KN))

    @staticmethod
    def _is_plain(x_MK: Tensor, weight_KN: Tensor) -> bool:
        soon_done = len(x_MK) < FEW_ROWS and weight_KN.numel() < SMALL
        known = x_MK.dtype == torch.float32 and not x_MK.is_cuda and _has_onednn()
        return soon_done or not known

    def _in_half(
        self, x_MK: Tensor, weight_KN: Tensor, bias_N: Tensor | None
    ) -> Tensor:
        """Both factors and the result rounded to 16 bits; summed up in float32."""
        dtype = half_type(x_MK.device)
        bias = None if bias_N is None else bias_N.to(dtype)
        if x_MK.is_cuda:
            weight = self._keep("half", weight_KN, lambda w: w.to(dtype))
            return _plain(x_MK.to(dtype), weight, bias).float()
        packed = self._keep("packed half", weight_KN, lambda w: _pack(w.to(dtype)))
        return _onednn(x_MK.to(dtype), packed, bias).float()

    def _prepared(self, weight_KN: Tensor) -> Tensor:
        if self.prepare is None:
            return weight_KN
        return self._keep("prepared", weight_KN, lambda w: w)

    def _packed(self, weight_KN: Tensor) -> Tensor:
        return self._keep("packed", weight_KN, _pack)

    def _keep(
        self, form: str, weight_KN: Tensor, make: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """A form of a weight, made anew when the weight has changed."""
        state = weight_KN.data_ptr(), weight_KN._version
        kept = self._kept.get(form)
        if kept is None or kept[0] is not weight_KN or kept[1:3] != state:
            weight = weight_KN.detach()
            made = make(weight if self.prepare is None else self.prepare(weight))
            # With the weight itself, so that no other takes its place in memory.
            self._kept[form] = kept = (weight_KN, *state, made)
        return kept[3]


def _plain(x_MK: Tensor, weight_KN: Tensor, bias_N: Tensor | None) -> Tensor:
    if bias_N is None:
        return torch.mm(x_MK, weight_KN)
    return torch.addmm(bias_N, x_MK, weight_KN)


def _pack(weight_KN: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight.default(weight_KN.t().contiguous())


def _onednn(x_MK: Tensor, weight_NK: Tensor, bias_N: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise.default(
        x_MK, weight_NK, bias_N, "none", [], ""
    )
