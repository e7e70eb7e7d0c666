"""What a processor and this torch can compute fast, and the precisions that pay on it.

float32  as torch computes it, up to rounding
half     inputs, weights and results rounded to 16 bits, summed up in float32
int8     weights rounded to 8 bits by the largest of each column, inputs by the
         largest of each row, so that no row depends on the others; summed up exactly
"""

from typing import Literal, NamedTuple

import torch

from ...errors import Errors
from . import onednn

Precision = Literal["float32", "half", "int8"]
PRECISIONS = ("float32", "half", "int8")


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


def processor_of(device: torch.device) -> Processor:
    """Return what a device of this machine can compute fast."""
    if device.type != "cpu":
        return Processor(device.type, bfloat16=device.type == "cuda")
    if not onednn.is_enabled():
        return Processor("cpu", bfloat16=_cpu_has_bfloat16())
    return Processor(
        "cpu",
        onednn=onednn.has_linear(),
        avx512=_cpu_has("avx512") and not _cpu_has("amx_tile"),
        bfloat16=_cpu_has_bfloat16(),
        int8=_cpu_has("vnni") and onednn.has_linear_int8(),
    )


def _cpu_has(instructions: str) -> bool:
    return bool(getattr(torch.cpu, f"_is_{instructions}_supported", lambda: False)())


def _cpu_has_bfloat16() -> bool:
    return _cpu_has("avx512_bf16") or _cpu_has("amx_tile")


def check_name(precision: str) -> None:
    """Check the name of a precision.

    Raises:
        ValueError: It is not known [EL073].
    """
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise ValueError(Errors.EL073.format(found=precision, known=known))


def check_precision(precision: str, device: torch.device) -> None:
    """Check that inference in a precision pays on a device.

    Raises:
        ValueError: The precision is not known [EL073], or the processor has no
            instructions for it, so that it would be slower, not faster [EL077].
    """
    check_name(precision)
    found = processor_of(device)
    if device.type == "cpu":
        pays = {"half": found.onednn and found.bfloat16, "int8": found.int8}
    else:
        pays = {"half": found.bfloat16, "int8": False}
    if not pays.get(precision, True):
        raise ValueError(Errors.EL077.format(precision=precision, device=device.type))


def check_bfloat16(device: torch.device) -> None:
    """Check that training in bfloat16 pays on a device.

    Raises:
        ValueError: The processor has no instructions for it [EL077].
    """
    if device.type == "cpu" and not processor_of(device).bfloat16:
        raise ValueError(Errors.EL077.format(precision="bfloat16", device=device.type))
