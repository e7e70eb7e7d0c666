"""The protocol of a kernel, and the kernels that users force.

A kernel computes one part of the biLM, for some dispatch keys, with the values of the
definition up to rounding. To add one, write a file here with the functions of a
protocol below, and name it in the list of its part in plan.py. layer_by_layer.py has
`prepare` and `read` for a kernel of one LSTM layer.
tests/bilm/kernels/test_kernels.py compares every kernel with the definition.

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


class DispatchKey(NamedTuple):
    """The facts that kernels are chosen by.

    Attributes:
        device: Type of the device.
        precision: Precision of inference.
        gradient: Whether a gradient is asked for.
        dtype: Dtype of the weights.
        instructions: Instruction set of the C library; None without the library.
        traced: Whether torch records operations, for `torch.export` for instance.
        autocast: Dtype of autocast where a gradient is asked for; None if it is off.
    """

    device: str = "cpu"
    precision: Precision = "float32"
    gradient: bool = False
    dtype: torch.dtype = torch.float32
    instructions: str | None = None
    traced: bool = False
    autocast: torch.dtype | None = None

    @property
    def matmul_dtype(self) -> torch.dtype:
        """The dtype that both factors of a matrix multiplication are rounded to."""
        if self.gradient:
            return self.autocast or self.dtype
        is_half = self.device == "cuda" and self.precision == "half"
        return torch.float16 if is_half else self.dtype

    @property
    def is_native(self) -> bool:
        """Whether the C library can compute."""
        return (
            self.instructions is not None
            and self.device == "cpu"
            and self.dtype == torch.float32
            and not self.gradient
        )


def dispatch_key_of(weight: Tensor, precision: Precision) -> DispatchKey:
    """Return the dispatch key of a model with this weight, in this thread and now."""
    device, gradient, traced = weight.device.type, torch.is_grad_enabled(), is_traced()
    # Not by `find_library`, which would be one call deeper (benchmarks/frames.py).
    library = None if traced else _library(forced_kernels().get("instructions"))
    known = gradient and not traced and torch.amp.is_autocast_available(device)
    is_on = known and torch.is_autocast_enabled(device)
    return DispatchKey(
        device,
        precision,
        gradient,
        weight.dtype,
        None if library is None else library.instructions,
        traced,
        torch.get_autocast_dtype(device) if is_on else None,
    )


def is_traced() -> bool:
    """Return whether torch records the operations that run now."""
    by_compiler = torch.compiler.is_compiling() or torch.compiler.is_exporting()
    return by_compiler or bool(is_tracing())


class TokenKernel(Protocol):
    """Computes token vectors from characters (token_encoder.py)."""

    def can_run(self, key: DispatchKey, config: BiLMConfig) -> bool:
        """Return whether the kernel can compute for a dispatch key."""

    def prepare(self, encoder: CharCnnEncoder, key: DispatchKey) -> Any:
        """Return the weights in the layout that the kernel reads. The result is reused
        until a weight changes, but not where a gradient is asked for."""

    def encode(
        self,
        encoder: CharCnnEncoder,
        prepared: Any,
        parts: Sequence[Tensor],
        word_ids_V: Tensor | None = None,
    ) -> Tensor:
        """Return token vectors, (V, H).

        Args:
            encoder: The definition, with its weights.
            prepared: The result of `prepare`.
            parts: Character ids (V, C), in one or more parts of different widths.
            word_ids_V: Word ids of all parts, in models that read both.
        """


class Inputs(NamedTuple):
    """The arguments of `BidirectionalLM.read`, whose docstring describes them."""

    x_VH: Tensor
    forward_N: Tensor
    backward_N: Tensor
    batch_sizes: Sequence[int]
    state: BiLMState
    dropout: float = 0.0


Outputs = tuple[list[Tensor], list[Tensor], BiLMState]  # of `BidirectionalLM.read`


class LstmKernel(Protocol):
    """Reads packed sequences in both directions (`BidirectionalLM.read`).

    A kernel that computes without a gradient alone gives a sentence on a CPU the same
    bits alone and in any batch. `layer_by_layer.one_after_another` does that for
    kernels in PyTorch.
    """

    def can_run(self, key: DispatchKey, config: BiLMConfig) -> bool:
        """Return whether the kernel can compute for a dispatch key. A forced kernel is
        asked nothing else, so the answer must hold for every device, gradient, dtype
        and clip, and where torch records operations."""

    def prepare(self, model: BidirectionalLM, key: DispatchKey) -> Any:
        """Return the weights in the layout that the kernel reads. The result is reused
        until a weight changes, but not where a gradient is asked for."""

    def read(
        self,
        model: BidirectionalLM,
        prepared: Any,
        inputs: Inputs,
    ) -> Outputs:
        """Compute `model.read(*inputs)`, by the result of `prepare`.

        Autocast is off: kernels choose their own dtype, which may be more exact than
        the precision that is asked for. Token vectors come in any dtype. States are
        carried in the dtype of the weights, since their errors would add up over a
        text. There is dropout in training mode alone.
        """


# -- forced kernels ----------------------------------------------------------------

# The names that each part can be forced to. plan.py adds "token_encoder" and "lstm".
KERNELS: dict[str, tuple[str, ...]] = {
    # Instruction sets of the C library; "none" turns the library off.
    "instructions": (*native.INSTRUCTIONS, "none"),
    "training_matmul": ("onednn", "torch"),
    "gradients": ("overlapped", "afterwards"),
}

_forced: ContextVar[Mapping[str, str]] = ContextVar("forced", default={})  # noqa: B039


@contextmanager
def force(**kernels: str) -> Iterator[None]:
    """Use these kernels in this thread while the body runs, in place of those of
    plan.py, to find a fault or to test a kernel.

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
                raise Errors.EL073(found=found, known=", ".join(known))


def find_library() -> Library | None:
    """Return the C library with the best instruction set of this processor, or with the
    forced one. Return None if the library was not built, or if "none" is forced. Raises
    ValueError [EL150] if the forced instruction set can't run."""
    return _library(forced_kernels().get("instructions"))


def _library(forced: str | None) -> Library | None:
    if forced is None:
        return native.best()
    return None if forced == "none" else native.load(forced)


def describe_library() -> tuple[str, str]:
    """Return the name of the library's instruction set, "none" without the library, and
    the reason for it. Raises ValueError as `find_library`."""
    found = find_library()
    name = "none" if found is None else found.instructions
    if "instructions" in forced_kernels():
        return name, "forced (SPACY_ELMO_KERNELS)"
    if not native.is_built():
        return name, "not built: this package was installed without a C compiler"
    if found is None:
        return name, f"this processor has none of {', '.join(native.INSTRUCTIONS)}"
    return name, "the best that this processor has"
