"""What a device is given at once, and how numbers come to it and back: through pinned
memory, without waiting.

Other copies wait for all that the GPU was given to compute before. Training steps and
`nlp.pipe` make none: whether the vectors of a batch are finite (encode.check_finite) is
looked at when the next was given to the GPU, or at the end.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class AtOnce(NamedTuple):
    """How much a type of device computes at once: tokens that are read, and logits of a
    softmax."""

    tokens: int
    logits: int


# What a CPU's cache and memory bound: 128 MB of logits. A GPU needs more rows to be
# busy, and to read a large softmax seldom: 1 GB. Calculated; none was timed on one.
CPU_AT_ONCE = AtOnce(4096, 1 << 25)
GPU_AT_ONCE = AtOnce(32_768, 1 << 28)


def at_once(device: torch.device) -> AtOnce:
    """Return how much a device computes at once."""
    return GPU_AT_ONCE if device.type == "cuda" else CPU_AT_ONCE


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
    """Start copying a tensor to the CPU. Return a function that waits for the copy, but
    not for work that the GPU was given later, and returns it."""
    copy = tensor.to("cpu", non_blocking=True)  # into pinned memory
    if tensor.device.type == "cpu":
        return lambda: copy
    arrival = torch.accelerator.current_stream(tensor.device).record_event()

    def get() -> Tensor:
        arrival.synchronize()
        return copy

    return get
