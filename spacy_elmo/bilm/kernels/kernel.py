"""What a kernel is: the protocol that plan.py chooses by, and fast_bilm.py calls.
Below it stand the names of all kernels, by which users force one in place of another.

A kernel computes one part of the biLM, as the definition does up to rounding, for the
cases that it can run. It is a file here with the functions of a protocol below, named
in the list of its part in plan.py; `tests/bilm/kernels/test_kernels.py` then compares
it with the definition.

Shapes: as in model.py.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.jit import is_tracing  # type: ignore[attr-defined]

from ...errors import Errors
from ...machine import Precision
from ..config import BiLMConfig
from ..lstm import BiLMState
from ..model import BidirectionalLM
from ..token_encoder import CharCnnEncoder
from . import native
from .native import Library


class Case(NamedTuple):
    """What a kernel is chosen by: type of device, precision of inference, whether a
    gradient is asked for, dtype of the weights, and the C library's instructions."""

    device: str = "cpu"
    precision: Precision = "float32"
    gradient: bool = False
    dtype: torch.dtype = torch.float32
    instructions: str | None = None

    @property
    def is_native(self) -> bool:
        """Whether the C library computes this case."""
        return (
            self.instructions is not None
            and self.device == "cpu"
            and self.dtype == torch.float32
            and not self.gradient
        )


def case_of(weight: Tensor, precision: Precision) -> Case:
    """Return the case of a model with this weight. What torch traces must be
    torch's."""
    traced = torch.compiler.is_compiling() or torch.compiler.is_exporting()
    forced = forced_kernels().get("instructions")
    library = None if traced or is_tracing() else _library(forced)
    return Case(
        weight.device.type,
        precision,
        torch.is_grad_enabled(),
        weight.dtype,
        None if library is None else library.instructions,
    )


class TokenKernel(Protocol):
    """Computes token vectors from characters (token_encoder.py)."""

    def can_run(self, case: Case, config: BiLMConfig) -> bool:
        """Return whether the kernel computes a case."""

    def prepare(self, encoder: CharCnnEncoder, case: Case) -> Any:
        """Return the weights as the kernel reads them. They are kept until the weights
        change, but not where a gradient is asked for."""

    def encode(
        self,
        encoder: CharCnnEncoder,
        prepared: Any,
        ids_VC: Tensor,
        word_ids_V: Tensor | None = None,
    ) -> Tensor:
        """Return token vectors, (V, H)."""


class LstmKernel(Protocol):
    """Reads packed sequences in both directions (`BidirectionalLM.read`)."""

    def can_run(self, case: Case, config: BiLMConfig) -> bool:
        """Return whether the kernel computes a case."""

    def prepare(self, model: BidirectionalLM, case: Case) -> Any:
        """Return the weights as the kernel reads them, as above."""

    def read(
        self,
        model: BidirectionalLM,
        prepared: Any,
        x_VH: Tensor,
        forward_N: Tensor,
        backward_N: Tensor,
        batch_sizes: Sequence[int],
        state: BiLMState,
        dropout: float = 0.0,
    ) -> tuple[list[Tensor], list[Tensor], BiLMState]:
        """Return what `model.read` returns."""


# -- which kernels there are, and which are forced ---------------------------------

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
                raise Errors.EL073(found=found, known=", ".join(known))


def pick(part: str, best: str, can_run: Mapping[str, bool]) -> str:
    """Return the kernel of a part: the best, unless another is forced. Raises
    ValueError [EL150] if that can't run."""
    name = forced_kernels().get(part, best)
    if not can_run[name]:
        raise Errors.EL150(part=part, name=name)
    return name


def find_library() -> Library | None:
    """Return the C library with the best instructions of this processor, or with those
    that are forced; None where it was not built, or where "none" is forced. Raises
    ValueError [EL150] if the forced ones can't run."""
    return _library(forced_kernels().get("instructions"))


def _library(forced: str | None) -> Library | None:
    if forced is None:
        return native.best()
    return None if forced == "none" else native.load(forced)


def describe_library() -> tuple[str, str]:
    """Return the instructions that the library runs with, "none" without it, and why
    it does. Raises ValueError as `find_library`."""
    found = find_library()
    name = "none" if found is None else found.instructions
    if "instructions" in forced_kernels():
        return name, "forced (SPACY_ELMO_KERNELS)"
    if not native.is_built():
        return name, "not built: this package was installed without a C compiler"
    if found is None:
        return name, f"this processor has none of {', '.join(native.INSTRUCTIONS)}"
    return name, "the best that this processor has"
