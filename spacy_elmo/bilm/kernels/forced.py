"""What users force in place of the kernels that plan.py chooses: by `force`, or by the
variable SPACY_ELMO_KERNELS, to find a fault or to test a kernel."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from ...errors import Errors

KERNELS = {
    "token_encoder": ("native_tokens", "char_cnn", "definition"),
    "lstm": (
        "native_lstm",
        "cudnn_lstm",
        "gpu_lstm",
        "torch_lstm",
        "autograd_lstm",
        "definition",
    ),
    # Of the C library; "none": without it.
    "instructions": ("avx512_bf16", "avx512", "avx2", "neon", "none"),
    "training_matmul": ("onednn", "torch"),
    "gradients": ("overlapped", "afterwards"),
}

_forced: ContextVar[Mapping[str, str]] = ContextVar("forced", default={})  # noqa: B039


@contextmanager
def force(**kernels: str) -> Iterator[None]:
    """Use these kernels, by part as in KERNELS, in this thread inside. Raises
    ValueError [EL073] if a part or kernel is not known, and inside [EL150] where a
    kernel can't compute what it is asked for."""
    _check_names(kernels)
    token = _forced.set({**_forced.get(), **kernels})
    try:
        yield
    finally:
        _forced.reset(token)


def forced_kernels() -> Mapping[str, str]:
    """Return by part what `force` asks for, and before it SPACY_ELMO_KERNELS, as in
    "instructions=avx2,lstm=definition"."""
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
    """Return the kernel of a part: the best, unless another is forced. Raises
    ValueError [EL150] if that can't run."""
    name = forced_kernels().get(part, best)
    if not can_run[name]:
        raise ValueError(Errors.EL150.format(part=part, name=name))
    return name
