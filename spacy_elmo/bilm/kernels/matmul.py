"""x W + b in PyTorch, with a weight that is prepared once for many batches.

Shapes: M rows, K columns in, N columns out.
"""

import torch
from torch import Tensor

from .kernel import DispatchKey


class Matmul:
    """A weight in its own dtype."""

    def __init__(self, weight_KN: Tensor) -> None:
        self.weight_KN = weight_KN

    def linear(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        """Return x W + b, (M, N), in the dtype of x."""
        if bias_N is None:
            return torch.mm(x_MK, self.weight_KN)
        return torch.addmm(bias_N, x_MK, self.weight_KN)

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        z_MN.addmm_(x_MK, self.weight_KN)


class HalfMatmul(Matmul):
    """A weight in float16, for a GPU."""

    def __init__(self, weight_KN: Tensor) -> None:
        super().__init__(weight_KN.half())

    def linear(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        """Return x W + b, (M, N), in float32."""
        return self._multiply(x_MK, bias_N).float()

    def add_to(self, z_MN: Tensor, x_MK: Tensor) -> None:
        """Add x W to z, in place."""
        z_MN.add_(self._multiply(x_MK))

    def _multiply(self, x_MK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        low_N = None if bias_N is None else bias_N.half()
        return super().linear(x_MK.half(), low_N)


def prepare_matmul(weight_KN: Tensor, key: DispatchKey) -> Matmul:
    """Return a weight prepared for a dispatch key."""
    if key.gradient:
        return Matmul(weight_KN)
    on_gpu = key.device == "cuda"
    low = on_gpu and key.precision == "half"
    return (HalfMatmul if low else Matmul)(weight_KN.detach())
