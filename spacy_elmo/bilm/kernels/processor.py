"""What a processor and this torch can compute fast, and what kernels are chosen by.

Precisions of inference:

float32  as torch computes it, up to rounding; on a GPU without TF32
tf32     on a GPU: inputs and weights rounded to 11 bits, summed up in float32
half     inputs, weights and results rounded to 16 bits, summed up in float32
int8     weights rounded to 8 bits by the largest of each column, inputs by the
         largest of each row, so that no row depends on the others; summed up exactly
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from ...errors import Errors
from . import onednn

Precision = Literal["float32", "tf32", "half", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


class Settings(NamedTuple):
    """What users choose of a model's inference. exact: whether a sentence has the same
    vectors in any batch, bit for bit."""

    precision: Precision = "float32"
    exact: bool = False


class Processor(NamedTuple):
    """What a device can compute fast.

    device: "cpu", "cuda" or another type of torch's. onednn: matrix multiplications by
    oneDNN. avx512: AVX-512 without AMX, with which oneDNN keeps float32 where it may
    round it. bfloat16, int8: instructions to multiply these.
    """

    device: str
    onednn: bool = False
    avx512: bool = False
    bfloat16: bool = False
    int8: bool = False


class Case(NamedTuple):
    """What a kernel is chosen by. gradient: whether one is asked for. dtype: of the
    weights."""

    processor: Processor
    precision: Precision = "float32"
    exact: bool = False
    gradient: bool = False
    dtype: torch.dtype = torch.float32


def case_of(settings: Settings, weight: Tensor) -> Case:
    """Return the case that a layer with this weight is in."""
    gradient = torch.is_grad_enabled()
    return Case(processor_of(weight.device), *settings, gradient, weight.dtype)


def processor_of(device: torch.device) -> Processor:
    """Return what a device of this machine can compute fast."""
    mkldnn = torch.backends.mkldnn  # which users can turn off
    return probe(device.type, mkldnn.is_available() and bool(mkldnn.enabled))


@cache
def probe(device: str, with_onednn: bool) -> Processor:
    """Return what a type of device can compute fast, with oneDNN or without."""
    if device != "cpu":
        return Processor(device, bfloat16=device == "cuda")
    amx = _cpu_has("amx_tile")
    return Processor(
        "cpu",
        onednn=with_onednn and onednn.works(),
        avx512=with_onednn and _cpu_has("avx512") and not amx,
        bfloat16=amx or _cpu_has("avx512_bf16"),
        int8=with_onednn and _cpu_has("vnni") and onednn.works(int8=True),
    )


def _cpu_has(instructions: str) -> bool:
    return bool(getattr(torch.cpu, f"_is_{instructions}_supported", lambda: False)())


# The modes that `float32_mode` sets are those of the whole process.
_mode_lock = RLock()


@contextmanager
def float32_mode(precision: str, device: str) -> Iterator[None]:
    """Let a type of device multiply float32 in TF32 inside if that is the precision,
    and else not at all, whatever torch does otherwise: convolutions and LSTMs of cuDNN
    round to TF32 by default. Nothing changes on a CPU."""
    if device == "cpu":
        yield
        return
    cudnn: Any = torch.backends.cudnn
    backends: list[Any] = [torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn]
    mode = "tf32" if precision == "tf32" else "ieee"
    with _mode_lock:
        before = [backend.fp32_precision for backend in backends]
        try:
            for backend in backends:
                backend.fp32_precision = mode
            yield
        finally:
            for backend, each in zip(backends, before):
                backend.fp32_precision = each


def check_name(precision: str) -> None:
    """Raise ValueError [EL073] if there is no such precision."""
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise ValueError(Errors.EL073.format(found=precision, known=known))


def check_bfloat16(device: torch.device) -> None:
    """Raise ValueError [EL077] if a CPU has no instructions to train in bfloat16."""
    if device.type == "cpu" and not processor_of(device).bfloat16:
        raise ValueError(Errors.EL077.format(precision="bfloat16", device=device.type))
