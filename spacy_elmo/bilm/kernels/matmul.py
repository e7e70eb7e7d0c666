"""x W + b in PyTorch, with weights that stay the same from batch to batch.

Shapes: M rows, K columns in, N columns out.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from .kernel import Case

# Rows that are multiplied at once on a CPU, and what sizes of weights are multiples of:
# libraries sum up what is left over of a size in another order.
BLOCK = 16


class Matmul:
    """A weight that torch multiplies by."""

    def __init__(self, weight_KN: Tensor) -> None:
        self.weight_KN = weight_KN

    def linear(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        """Return x W + b, (M, N), of x's dtype."""
        if bias_N is None:
            return torch.mm(x_MK, self.weight_KN)
        return torch.addmm(bias_N, x_MK, self.weight_KN)

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        z_MN.addmm_(x_MK, self.weight_KN)


class MatmulInBlocks(Matmul):
    """A weight that torch multiplies by BLOCK rows at a time, filled up with zeros, so
    that no row depends on how many there are."""

    def __init__(self, weight_KN: Tensor) -> None:
        K, self.n_out = weight_KN.shape
        padding = 0, -self.n_out % BLOCK, 0, -K % BLOCK
        super().__init__(F.pad(weight_KN, padding) if any(padding) else weight_KN)

    def linear(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        """Return x W + b, (M, N), of x's dtype."""
        M, K = x_MK.shape
        padding = 0, len(self.weight_KN) - K, 0, -M % BLOCK
        padded = F.pad(x_MK, padding) if any(padding) else x_MK
        blocks = [torch.mm(block, self.weight_KN) for block in padded.split(BLOCK)]
        y_MN = (
            torch.cat(blocks)[:M, : self.n_out]
            if blocks
            else x_MK.new_empty(0, self.n_out)
        )
        return y_MN.contiguous() if bias_N is None else y_MN + bias_N

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        z_MN.add_(self.linear(x_MK))


class HalfMatmul(Matmul):
    """A weight in float16, for a GPU."""

    def __init__(self, weight_KN: Tensor) -> None:
        super().__init__(weight_KN.half())

    def linear(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        """Return x W + b in float32."""
        return self._multiply(x_MK, bias_N).float()

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        z_MN.add_(self._multiply(x_MK))

    def _multiply(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        low_N = None if bias_N is None else bias_N.half()
        return super().linear(x_MK.half(), low_N)


def prepare_matmul(weight_KN: Tensor, case: Case) -> Matmul:
    """Return what multiplies by a weight in this case."""
    weight_KN = weight_KN if case.gradient else weight_KN.detach()
    if case.gradient:
        return Matmul(weight_KN)
    if case.device == "cpu":
        return MatmulInBlocks(weight_KN)
    return HalfMatmul(weight_KN) if case.precision == "half" else Matmul(weight_KN)
