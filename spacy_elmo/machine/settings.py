"""Computing with the default settings of PyTorch and NumPy, whatever a user has
changed, and with a number of threads.

Two settings of PyTorch belong to the whole process, so other threads see a change. The
default dtype is not changed: all tensors here are made with a dtype. The precision of
float32 products is changed by one thread at a time.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import RLock
from typing import Any

import numpy as np
import torch

# NumPy's default reactions to numbers that are too large, too small or undefined.
NUMPY: dict[str, Any] = {
    "divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn",
}  # fmt: skip


@contextmanager
def default_settings(*, gradient: bool = False, matmul: bool = True) -> Iterator[None]:
    """Use the default settings of PyTorch and NumPy while the body runs: no inference
    mode, no autocast, no default device, NumPy's own reactions to errors, and float32
    products in float32.

    Args:
        gradient: Whether operations are recorded for a gradient.
        matmul: Whether to set the precision of float32 products on a CPU.
    """
    with ExitStack() as scope:
        scope.enter_context(torch.inference_mode(False))
        scope.enter_context(torch.set_grad_enabled(gradient))
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                scope.enter_context(torch.autocast(device, enabled=False))
        if torch.get_default_device().type != "cpu":
            scope.enter_context(torch.device("cpu"))
        scope.enter_context(np.errstate(**NUMPY))
        if matmul:
            scope.enter_context(float32_mode("float32", "cpu"))
        yield


# Guards the settings of `float32_mode`, which belong to the whole process.
_mode_lock = RLock()


@contextmanager
def float32_mode(precision: str, device: str) -> Iterator[None]:
    """Set the precision of float32 products while the body runs: TF32 if that is the
    precision, else float32. By default cuDNN rounds to TF32 in convolutions and LSTMs,
    and oneDNN to bfloat16 if the user allows it.

    Args:
        precision: Precision of inference.
        device: Type of device.
    """
    mode = "tf32" if precision == "tf32" else "ieee"
    mkldnn: Any = torch.backends.mkldnn
    cudnn: Any = torch.backends.cudnn
    backends: list[Any] = [torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn]
    if device == "cpu":
        backends = [mkldnn.matmul]
        if mkldnn.matmul.fp32_precision in ("none", mode):
            yield
            return
    with _mode_lock:
        before = [backend.fp32_precision for backend in backends]
        try:
            for backend in backends:
                backend.fp32_precision = mode
            yield
        finally:
            for backend, each in zip(backends, before):
                backend.fp32_precision = each


@contextmanager
def thread_count(n: int) -> Iterator[None]:
    """Let the calling thread compute with n threads while the body runs.

    `torch.set_num_threads` changes the number of the calling thread, and of all threads
    that first use torch later. A thread that a user started meanwhile would keep the
    number. The functions of OpenMP change the number of the calling thread alone.
    """
    before = torch.get_num_threads()  # sets up a thread that is new to torch
    openmp, mkl = _setters()
    openmp(n)
    mkl_before = mkl(n)
    try:
        yield
    finally:
        openmp(before)
        mkl(mkl_before)


@cache
def _setters() -> tuple[Callable[[int], object], Callable[[int], int]]:
    """Return the functions that set the calling thread's number of threads in OpenMP
    and in MKL. The latter returns the number before. Without MKL it does nothing."""
    library = torch_library()
    openmp = getattr(library, "omp_set_num_threads", torch.set_num_threads)
    return openmp, getattr(library, "MKL_Set_Num_Threads_Local", lambda n: n)


@cache
def torch_library() -> ctypes.CDLL:
    """Return the library of torch, which is linked with OpenMP and, on some systems,
    with MKL."""
    return ctypes.CDLL(torch._C.__file__)  # noqa: SLF001 (nothing public has its name)
