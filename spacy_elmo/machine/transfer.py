"""Limits of batches on a device, and copies to a device and back through pinned memory.

Copies from other memory wait for all work that the GPU has got before. Training steps
and `nlp.pipe` make no such copy. Whether the vectors of a batch are finite
(encode.check_finite) is checked after the GPU has got the next batch, or at the end.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class BatchLimits(NamedTuple):
    """The most tokens that a device reads in one batch, and the most logits that it
    computes in one multiplication."""

    tokens: int
    logits: int


# A CPU is bound by its cache and memory: 128 MB of logits. A GPU needs more rows to be
# busy, and to read a large softmax seldom: 1 GB. Calculated (docs/kernels.md).
CPU_BATCH_LIMITS = BatchLimits(4096, 1 << 25)
GPU_BATCH_LIMITS = BatchLimits(32_768, 1 << 28)


def batch_limits(device: torch.device) -> BatchLimits:
    """Return the limits of a batch on a device."""
    return GPU_BATCH_LIMITS if device.type == "cuda" else CPU_BATCH_LIMITS


# On a CPU NumPy makes and copies the rows below, since the threads that torch wakes for
# more than 32,768 numbers look for more work for a while, and the C library's threads
# would have to wait for a processor.


def zeros(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Return a float32 tensor of zeros."""
    if device.type == "cpu":
        return torch.from_numpy(np.zeros(shape, np.float32))
    return torch.zeros(shape, dtype=torch.float32, device=device)


def take_rows(x_ND: Tensor, numbers: Sequence[int]) -> Tensor:
    """Return some rows of a matrix."""
    if x_ND.device.type == "cpu" and x_ND.dtype == torch.float32:
        return torch.from_numpy(np.take(x_ND.detach().numpy(), numbers, axis=0))
    return x_ND[to_device(numbers, x_ND.device)]


def put_rows(y_MD: Tensor, numbers: Sequence[int], x_ND: Tensor) -> None:
    """Write the rows of a matrix into some rows of another one."""
    if y_MD.device.type == "cpu" and x_ND.dtype == y_MD.dtype == torch.float32:
        y_MD.numpy()[numbers] = x_ND.detach().numpy()
    else:
        y_MD[to_device(numbers, y_MD.device)] = x_ND


def join_rows(parts: Sequence[Tensor]) -> Tensor:
    """Return the rows of matrices as one matrix."""
    if all(x.device.type == "cpu" and x.dtype == torch.float32 for x in parts):
        return torch.from_numpy(np.concatenate([x.detach().numpy() for x in parts]))
    return torch.cat(list(parts))


def copy_rows(x_LND: Tensor, from_N: Tensor, y_LMD: Tensor, to_N: Tensor) -> None:
    """Copy some rows of each layer into rows of another array, layer by layer: one fits
    a CPU's cache."""
    for x_ND, y_MD in zip(x_LND, y_LMD):
        if x_ND.device.type == "cpu" and x_ND.dtype == y_MD.dtype == torch.float32:
            y_MD.numpy()[to_N.numpy()] = np.take(x_ND.numpy(), from_N.numpy(), axis=0)
        else:
            y_MD.index_copy_(0, to_N, x_ND.index_select(0, from_N).to(y_MD.dtype))


def to_device(numbers: np.ndarray | Sequence[int], device: torch.device) -> Tensor:
    """Return an array, or a list of integers, as a tensor on a device. On a CPU the
    tensor shares the memory of the array."""
    if isinstance(numbers, np.ndarray):
        tensor = torch.from_numpy(numbers)
    else:
        tensor = torch.tensor(numbers, dtype=torch.int64, device="cpu")
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def to_host(tensor: Tensor) -> Callable[[], Tensor]:
    """Start copying a tensor to the CPU. Return a function that waits for the copy to
    finish, but not for later work of the GPU, and returns the copy."""
    copy = tensor.to("cpu", non_blocking=True)  # into pinned memory
    if tensor.device.type == "cpu":
        return lambda: copy
    arrival = torch.accelerator.current_stream(tensor.device).record_event()

    def get() -> Tensor:
        arrival.synchronize()
        return copy

    return get
