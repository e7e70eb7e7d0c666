"""The abilities of a processor.

Precisions of inference:

float32  inputs, weights and sums in float32; on a GPU without TF32
tf32     on a GPU: inputs and weights rounded to 11 bits, sums in float32
half     weights rounded to 16 bits (bfloat16, float16 on a GPU), and inputs too if the
         processor multiplies such numbers; sums in float32
"""

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args

import torch

from ..errors import Errors

Precision = Literal["float32", "tf32", "half"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

# Instruction sets of a CPU for training, each with all before it. ARM is "unknown".
# avx512_vnni and avx512_fp16 are looked for in no CPU: they change no choice. They are
# here because ONEDNN_MAX_CPU_ISA may name them as a limit.
INSTRUCTIONS = (
    "unknown",
    "avx2",
    "avx512",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx",
)


def onednn_is_on() -> bool:
    """Return whether torch uses oneDNN. Users can turn it off."""
    mkldnn = torch.backends.mkldnn
    return mkldnn.is_available() and bool(mkldnn.enabled)


def has_bfloat16_products() -> bool:
    """Return whether torch trains in bfloat16 faster than in float32 on this CPU."""
    has = INSTRUCTIONS.index(instructions())
    return onednn_is_on() and has >= INSTRUCTIONS.index("avx512_bf16")


def instructions() -> str:
    """Return the best of avx2, avx512, avx512_bf16 and amx that this CPU has, or
    "unknown". The variables of torch and oneDNN, ATEN_CPU_CAPABILITY and
    ONEDNN_MAX_CPU_ISA, can limit it, the latter to any of INSTRUCTIONS."""
    capability = torch.backends.cpu.get_cpu_capability().lower()
    best = capability if capability in ("avx2", "avx512") else "unknown"
    for name, has in (("avx512_bf16", "avx512_bf16"), ("amx", "amx_tile")):
        if (
            capability == "avx512"
            and getattr(torch.cpu, f"_is_{has}_supported", bool)()
        ):
            best = name
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "").lower().replace("_core", "")
    allowed = next((name for name in reversed(INSTRUCTIONS) if name in limit), "amx")
    return min(best, allowed, key=INSTRUCTIONS.index)


def cpu_model() -> str:
    """Return the name of the processor's model on Linux, or ""."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        models = [line.split(":")[1] for line in lines if line.startswith("model name")]
        return models[0].strip() if models else ""
    return ""


def describe_cpu() -> str:
    """Return the processor's model and architecture, as far as the system tells."""
    model = cpu_model() or platform.processor()
    return " ".join(dict.fromkeys(filter(None, (model, platform.machine()))))


def device_name(gpu_id: int) -> str:
    """Return torch's name of a GPU, such as "cuda:0", or "cpu" for -1. Raises
    ValueError [EL151] if there is no such GPU."""
    if gpu_id < 0:
        return "cpu"
    if gpu_id >= (n := torch.cuda.device_count()):
        raise Errors.EL151(gpu_id=gpu_id, n=n)
    return f"cuda:{gpu_id}"


def check_name(precision: str) -> None:
    """Raise ValueError [EL073] if there is no such precision, [EL097] if it is int8."""
    if precision == "int8":
        raise Errors.EL097()
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise Errors.EL073(found=precision, known=known)
