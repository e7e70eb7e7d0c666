"""How numbers come from the host to a device: from pinned memory, without waiting.

A copy from pageable memory, or one to the host, waits for all that the GPU was given to
compute before. A training step makes no other copies than these. Reading waits once
for each batch: whether its vectors are finite (batch.check_finite).
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def to_device(numbers: np.ndarray | Sequence[int], device: torch.device) -> Tensor:
    """Return an array, or a list of integers, as a tensor on a device; on a CPU an
    array's own memory."""
    if isinstance(numbers, np.ndarray):
        tensor = torch.from_numpy(numbers)
    else:
        tensor = torch.tensor(numbers, dtype=torch.int64)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
