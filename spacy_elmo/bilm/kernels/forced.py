"""Kernels that users force in place of those of plan.py, to find a fault or to test a
kernel: with `force`, or with the variable SPACY_ELMO_KERNELS."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from ...errors import Errors

# The names that each part can be forced to. plan.py adds "token_encoder" and "lstm".
KERNELS: dict[str, tuple[str, ...]] = {
    # Instruction sets of the C library; "none" turns the library off.
    "instructions": ("avx512_bf16", "avx512", "avx2", "neon", "none"),
    "training_matmul": ("onednn", "torch"),
    "gradients": ("overlapped", "afterwards"),
}

_forced: ContextVar[Mapping[str, str]] = ContextVar("forced", default={})  # noqa: B039


@contextmanager
def force(**kernels: str) -> Iterator[None]:
    """Use these kernels in this thread while the body runs.

    Args:
        kernels: The name of a kernel for each part, as in KERNELS.

    Raises:
        ValueError: [EL073] There is no such part or kernel. [EL150], raised in the body
            by a computation that the kernel can't do.
    """
    _check_names(kernels)
    token = _forced.set({**_forced.get(), **kernels})
    try:
        yield
    finally:
        _forced.reset(token)


def forced_kernels() -> Mapping[str, str]:
    """Return the forced kernel of each part. `force` goes before SPACY_ELMO_KERNELS,
    whose value is like "instructions=avx2,lstm=definition". Raises ValueError [EL073]
    if the variable names an unknown part or kernel."""
    setting = os.environ.get("SPACY_ELMO_KERNELS")
    return {**_parse(setting), **_forced.get()} if setting else _forced.get()


@cache
def _parse(setting: str) -> Mapping[str, str]:
    parts = (part.partition("=") for part in setting.split(","))
    kernels = {part.strip(): name.strip() for part, _, name in parts}
    _check_names(kernels)
    return kernels


def _check_names(kernels: Mapping[str, str]) -> None:
    for part, name in kernels.items():
        for found, known in ((part, KERNELS), (name, KERNELS.get(part, ()))):
            if found not in known:
                message = Errors.EL073.format(found=found, known=", ".join(known))
                raise ValueError(message)


def pick(part: str, best: str, can_run: Mapping[str, bool]) -> str:
    """Return the kernel of a part: the forced one, or else the best. Raises ValueError
    [EL150] if the forced one can't run."""
    name = forced_kernels().get(part, best)
    if not can_run[name]:
        raise ValueError(Errors.EL150.format(part=part, name=name))
    return name
