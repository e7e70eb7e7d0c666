"""Computing as if nobody had changed a setting of PyTorch or NumPy.

Two settings of PyTorch are those of the whole process, so other threads would notice if
they were set back for a while. Nothing relies on the default type of floats: tensors
are made with a type. How float32 is multiplied is set back by one thread at a time.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import RLock
from typing import Any

import numpy as np
import torch

# What NumPy does by default about numbers that are too large, too small or undefined.
NUMPY: dict[str, Any] = {
    "divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn",
}  # fmt: skip


@contextmanager
def default_settings(*, gradient: bool = False, matmul: bool = True) -> Iterator[None]:
    """Compute inside as PyTorch and NumPy do by default, whatever the caller has set:
    inference mode, autocast, a default device, errors of NumPy, float32 in fewer bits.

    Args:
        gradient: Whether operations are recorded for a gradient.
        matmul: Whether a CPU multiplies float32 as it does by default, too.
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


# The modes that `float32_mode` sets are those of the whole process.
_mode_lock = RLock()


@contextmanager
def float32_mode(precision: str, device: str) -> Iterator[None]:
    """Let a type of device multiply float32 in TF32 inside if that is the precision,
    and else not at all, whatever torch does otherwise: convolutions and LSTMs of cuDNN
    round to TF32 by default, and oneDNN to bfloat16 if it is allowed to."""
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
