"""What users force in place of the kernels that choose.py finds: by `force`, or by the
variable SPACY_ELMO_KERNELS, to find a fault or to test one."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from ...errors import Errors
from .matmul import FORMS

KERNELS = {
    "token_encoder": ("char_cnn", "definition"),
    "lstm": ("cudnn_lstm", "autograd_lstm", "one_row", "cpu_lstm", "definition"),
    "matmul": tuple(FORMS),
    "training_matmul": ("onednn", "torch"),
    "directions": ("two_threads", "one_thread", "all_threads", "one_operator"),
    "sequences": ("one_by_one", "together"),
    "gradients": ("overlapped", "afterwards"),
}

_forced: ContextVar[dict[str, str]] = ContextVar("forced", default={})  # noqa: B039


@contextmanager
def force(**kernels: str) -> Iterator[None]:
    """Use these kernels, by part as in KERNELS, in this thread inside, to test them or
    to find a fault. Raises ValueError [EL073] if a part or kernel is not known, and
    inside [EL150] where a kernel can't run what it is asked for."""
    _check_names(kernels)
    token = _forced.set({**_forced.get(), **kernels})
    try:
        yield
    finally:
        _forced.reset(token)


def forced_kernels() -> Mapping[str, str]:
    """Return by part what `force` asks for, and before it SPACY_ELMO_KERNELS, as in
    "matmul=torch,lstm=definition"."""
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
