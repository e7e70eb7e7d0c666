"""What a processor and this torch can compute, and what kernels are chosen by.

Precisions of inference:

float32  as torch computes it, up to rounding; on a GPU without TF32
tf32     on a GPU: inputs and weights rounded to 11 bits, summed up in float32
half     weights rounded to 16 bits, and inputs and results too where the processor
         multiplies these (bfloat16, float16 on a GPU); summed up in float32
int8     weights rounded to 8 bits by the largest of each column, inputs by the
         largest of each row, so that no row depends on the others; summed up exactly
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from ...errors import Errors
from .matmul import FORMS, works

Precision = Literal["float32", "tf32", "half", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


class Settings(NamedTuple):
    """What users choose of a model's inference. exact: whether a sentence has the same
    vectors in any batch, bit for bit."""

    precision: Precision = "float32"
    exact: bool = False


# Of a CPU, from the fewest on. ARM is unknown: nothing was measured there.
INSTRUCTIONS = (
    "unknown",
    "avx2",
    "avx512",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx",
)


class AtOnce(NamedTuple):
    """How much a type of device computes at once: tokens that are read, and logits of a
    softmax."""

    tokens: int
    logits: int


# What a CPU's cache and memory bound: 128 MB of logits. A GPU needs more rows to be
# busy, and to read a large softmax seldom: 1 GB. Calculated; none was timed on one.
CPU_AT_ONCE = AtOnce(4096, 1 << 25)
GPU_AT_ONCE = AtOnce(32_768, 1 << 28)


class Processor(NamedTuple):
    """What a device can compute.

    device: "cpu", "cuda" or another type of torch's. instructions: the best of
    INSTRUCTIONS that a CPU has; "unknown" elsewhere. forms: of matrix multiplications
    that work (matmul.py).
    """

    device: str
    instructions: str = "unknown"
    forms: frozenset[str] = frozenset({"torch"})

    @property
    def at_once(self) -> AtOnce:
        """How much it computes at once."""
        return GPU_AT_ONCE if self.device == "cuda" else CPU_AT_ONCE


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
    """Return what a device of this machine can compute."""
    mkldnn = torch.backends.mkldnn  # which users can turn off
    return probe(device.type, mkldnn.is_available() and bool(mkldnn.enabled))


@cache
def probe(device: str, with_onednn: bool) -> Processor:
    """Return what a type of device can compute, with oneDNN or without."""
    if device != "cpu":
        forms = {"torch", "cuda_float16"} if device == "cuda" else {"torch"}
        return Processor(device, forms=frozenset(forms))
    tried = [f for f in FORMS if not f.startswith("cuda")]
    tried = [f for f in tried if with_onednn or not f.startswith("onednn")]
    return Processor("cpu", instructions(), frozenset(filter(works, tried)))


def instructions() -> str:
    """Return the best of INSTRUCTIONS that this CPU has and that the variables of torch
    and oneDNN, ATEN_CPU_CAPABILITY and ONEDNN_MAX_CPU_ISA, leave it."""
    capability = torch.backends.cpu.get_cpu_capability().lower()
    has: Any = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.13 and newer
    best = capability if capability in ("avx2", "avx512") else "unknown"
    for name, supported in (
        ("avx512_vnni", _supports("vnni")),
        ("avx512_bf16", _supports("avx512_bf16")),
        ("avx512_fp16", has.get("avx512_fp16", False)),
        ("amx", _supports("amx_tile")),
    ):
        if capability == "avx512" and supported:
            best = name
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "").lower().replace("_core", "")
    allowed = next((name for name in reversed(INSTRUCTIONS) if name in limit), "amx")
    return min(best, allowed, key=INSTRUCTIONS.index)


def _supports(name: str) -> bool:
    return bool(getattr(torch.cpu, f"_is_{name}_supported", lambda: False)())


def cpu_model() -> str:
    """Return the processor's model as Linux names it, "" if it does not."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        models = [line.split(":")[1] for line in lines if line.startswith("model name")]
        return models[0].strip() if models else ""
    return ""


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


def mode_of(case: Case) -> AbstractContextManager[None]:
    """Return how a GPU multiplies float32: in training as the trainer has set it."""
    if case.gradient or case.processor.device == "cpu":
        return nullcontext()
    return float32_mode(case.precision, case.processor.device)


def check_name(precision: str) -> None:
    """Raise ValueError [EL073] if there is no such precision."""
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise ValueError(Errors.EL073.format(found=precision, known=known))
