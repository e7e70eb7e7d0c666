"""x W + b with weights that stay the same from batch to batch.

A product has several forms, which differ in the order and the bits that its weight is
kept in. Which is used for how many rows, choose.py says.

Shapes: M rows, K columns in, N columns out.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import cache
from math import inf
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from . import onednn

BLOCK_ROWS = 16
# Of a long product by a weight that was put in order before: they stay in the cache.
PACKED_BYTES = 4 << 20


class TorchMatmul:
    """A weight that torch itself multiplies by, and the base of the other forms."""

    # Rows of a long product are computed for so much of it at once: each call may put
    # the weight in another order first.
    block_bytes = 16 << 20

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


class MklMatmul(TorchMatmul):
    """A copy of a weight that MKL multiplies by, two rows at least: it sums up one row
    in another order, and any more in one order. The rows of the copy are no power of
    two apart: those of 256x8192 in a cache that is addressed by these bits took up to
    twice as long."""

    block_bytes = PACKED_BYTES

    def __init__(self, weight_KN: Tensor) -> None:
        K, N = weight_KN.shape
        super().__init__(weight_KN.new_empty(K, N + 16)[:, :N].copy_(weight_KN))

    def linear(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        """Return x W + b, (M, N), of x's dtype."""
        if len(x_MK) == 1:
            return super().linear(x_MK.expand(2, -1), bias_N)[:1]
        return super().linear(x_MK, bias_N)

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        if len(x_MK) > 1:
            super().add_to(z_MN, x_MK)
        else:
            z_2N = z_MN.repeat(2, 1)
            super().add_to(z_2N, x_MK.expand(2, -1))
            z_MN.copy_(z_2N[:1])


class TorchInBlocks(TorchMatmul):
    """A weight that torch multiplies by BLOCK_ROWS rows at a time, filled up with
    zeros, so that no row depends on how many there are."""

    def linear(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        """Return x W + b, (M, N), of x's dtype."""
        M = len(x_MK)
        blocks = F.pad(x_MK, (0, 0, 0, -M % BLOCK_ROWS)).split(BLOCK_ROWS)
        multiply = super().linear
        return torch.cat([multiply(block, bias_N) for block in blocks])[:M]

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        z_MN.add_(self.linear(x_MK))


class OneDnnInPlace(TorchMatmul):
    """A weight that oneDNN reads where it lies, and puts in its order at each call."""

    def __init__(self, weight_KN: Tensor) -> None:
        super().__init__(weight_KN.t())

    def linear(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        """Return x W + b, (M, N)."""
        return onednn.linear(x_MK, self.weight_KN, bias_N)

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        z_MN.add_(self.linear(x_MK))


class OneDnnMatmul(OneDnnInPlace):
    """A copy of a weight, in the order that oneDNN reads it in."""

    block_bytes = PACKED_BYTES

    def __init__(self, weight_KN: Tensor) -> None:
        TorchMatmul.__init__(self, onednn.pack(weight_KN))


class FbgemmFloat16(TorchMatmul):
    """A copy of a weight in float16, which FBGEMM widens as it reads: all arithmetic is
    float32."""

    def __init__(self, weight_KN: Tensor) -> None:
        pack = torch.ops.quantized.linear_prepack_fp16
        self.packed = pack(weight_KN.float().t().contiguous(), None)

    def linear(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        """Return x W + b, (M, N)."""
        y_MN = torch.ops.quantized.linear_dynamic_fp16.default(x_MK, self.packed)
        return y_MN if bias_N is None else y_MN.add_(bias_N)

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        z_MN.add_(self.linear(x_MK))


class FbgemmInt8(TorchMatmul):
    """A copy of a weight in 8 bits, which FBGEMM multiplies by one row at a time, since
    it rounds all rows that it is given by the largest of them."""

    def __init__(self, weight_KN: Tensor) -> None:
        weight_NK = weight_KN.float().t().contiguous()
        scale_N = weight_NK.abs().amax(dim=1).div_(127).clamp_(min=1e-30)
        low_NK = (weight_NK / scale_N[:, None]).round_().to(torch.int8)
        zero_N = torch.zeros(len(scale_N), dtype=torch.long)
        quantised = torch._make_per_channel_quantized_tensor  # noqa: SLF001
        pack = torch.ops.quantized.linear_prepack
        with warnings.catch_warnings():  # torch may drop it: `works` finds out
            warnings.simplefilter("ignore")
            self.packed = pack(quantised(low_NK, scale_N.double(), zero_N, 0), None)

    def linear(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        """Return x W + b in float32."""
        multiply = torch.ops.quantized.linear_dynamic.default
        rows = [x_MK] if len(x_MK) == 1 else x_MK.split(1)
        found = [multiply(x_1K, self.packed) for x_1K in rows]
        y_MN = found[0] if len(found) == 1 else torch.cat(found)
        return y_MN if bias_N is None else y_MN.add_(bias_N)

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        z_MN.add_(self.linear(x_MK))


class HalfMatmul(TorchMatmul):
    """A weight in 16 bits: bfloat16 by oneDNN on a CPU, float16 by torch on a GPU."""

    block_bytes = PACKED_BYTES

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

    block_bytes = PACKED_BYTES

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


FORMS: dict[str, type[TorchMatmul]] = {
    "torch": TorchMatmul,
    "mkl": MklMatmul,
    "torch_in_blocks": TorchInBlocks,
    "onednn": OneDnnMatmul,
    "onednn_in_place": OneDnnInPlace,
    "onednn_bfloat16": HalfMatmul,
    "fbgemm_float16": FbgemmFloat16,
    "onednn_int8": Int8Matmul,
    "fbgemm_int8": FbgemmInt8,
    "cuda_float16": HalfMatmul,
}
# They sum up in the same order, however many rows there are.
SAME_BITS = {"onednn", "onednn_in_place"}


@cache
@torch.no_grad()
def works(form: str) -> bool:
    """Return whether a form computes on this CPU with this torch, most operators being
    private to torch: it is tried out once, on matrices of 1 x 1."""
    one = torch.ones(1, 1, dtype=torch.float32, device="cpu")
    if form == "mkl" and not torch.backends.mkl.is_available():
        return False
    try:
        return abs(FORMS[form](one).linear(one).item() - 1) < 1e-3
    except (AttributeError, RuntimeError, TypeError, NotImplementedError):
        return False


class Rule(NamedTuple):
    """A form, to be used for fewer rows than `rows`, and for any number by a weight of
    at most n_bytes."""

    form: str
    rows: float = inf
    n_bytes: int = 0


def find_form(rules: Sequence[Rule], rows: int, n_bytes: float = inf) -> str:
    """Return the form of the first rule that holds for so many rows and for a weight
    of n_bytes."""
    found = (r for r in rules if rows < r.rows or n_bytes <= r.n_bytes)
    return next(found).form


class Weight(TorchMatmul):
    """A weight in the forms that rules name, each made when it is first asked for, of
    what `make` returns: a weight that stays, or a copy, which is not kept.

    is_copy: Whether it is a copy, which in float32 has one form alone: the copies that
    others need, or read where it lies, would take memory.
    """

    def __init__(
        self,
        make: Callable[[], Tensor],
        *,
        rules: Sequence[Rule],
        is_copy: bool = False,
    ) -> None:
        n_bytes = make().nbytes
        copied = [r for r in rules if r.form == "onednn" or n_bytes <= r.n_bytes]
        if is_copy and copied:
            rules = [copied[0]._replace(rows=inf)]
        self._make, self._n_bytes, self._rules = make, n_bytes, rules
        self._forms: dict[str, TorchMatmul] = {}

    @torch.no_grad()
    def at(self, rows: int) -> TorchMatmul:
        """Return what multiplies so many rows."""
        form = find_form(self._rules, rows, self._n_bytes)
        if form not in self._forms:
            self._forms[form] = FORMS[form](self._make())
        return self._forms[form]
