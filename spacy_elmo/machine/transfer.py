"""How numbers come to a device and back: through pinned memory, without waiting.

Other copies wait for all that the GPU was given to compute before. Training steps and
`nlp.pipe` make none: whether the vectors of a batch are finite (batch.check_finite) is
looked at when the next was given to the GPU, or at the end.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor


def to_device(numbers: np.ndarray | Sequence[int], device: torch.device) -> Tensor:
    """Return an array, or a list of integers, as a tensor on a device; on a CPU an
    array's own memory."""
    if isinstance(numbers, np.ndarray):
        tensor = torch.from_numpy(numbers)
    else:
        tensor = torch.tensor(numbers, dtype=torch.int64, device="cpu")
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def to_host(tensor: Tensor) -> Callable[[], Tensor]:
    """Return what returns a tensor's copy on the host: it waits until that is there,
    but for nothing that a GPU was given to do later."""
    copy = tensor.to("cpu", non_blocking=True)  # into pinned memory
    if tensor.device.type == "cpu":
        return lambda: copy
    arrival = torch.accelerator.current_stream(tensor.device).record_event()

    def get() -> Tensor:
        arrival.synchronize()
        return copy

    return get
