"""The protocol of a kernel.

A kernel computes one part of the biLM, for some dispatch keys, with the values of the
definition up to rounding. To add one, write a file here with the functions of a
protocol below, and name it in the list of its part in plan.py.
tests/bilm/kernels/test_kernels.py compares every kernel with the definition.

Shapes: as in model.py.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.jit import is_tracing  # type: ignore[attr-defined]

from ...machine import Precision
from ..config import BiLMConfig
from ..lstm import BiLMState
from ..model import BidirectionalLM
from ..token_encoder import CharCnnEncoder
from .native import find_library


class DispatchKey(NamedTuple):
    """The facts that kernels are chosen by.

    Attributes:
        device: Type of the device.
        precision: Precision of inference.
        gradient: Whether a gradient is asked for.
        dtype: Dtype of the weights.
        instructions: Instruction set of the C library; None without the library.
        traced: Whether torch records operations, for `torch.export` for instance.
    """

    device: str = "cpu"
    precision: Precision = "float32"
    gradient: bool = False
    dtype: torch.dtype = torch.float32
    instructions: str | None = None
    traced: bool = False

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
    traced = is_traced()
    library = None if traced else find_library()
    return DispatchKey(
        weight.device.type,
        precision,
        torch.is_grad_enabled(),
        weight.dtype,
        None if library is None else library.instructions,
        traced,
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
        ids_VC: Tensor,
        word_ids_V: Tensor | None = None,
    ) -> Tensor:
        """Return token vectors, (V, H).

        Args:
            encoder: The definition, with its weights.
            prepared: The result of `prepare`.
            ids_VC: Character ids.
            word_ids_V: Word ids, in models that read both.
        """


class LstmKernel(Protocol):
    """Reads packed sequences in both directions (`BidirectionalLM.read`)."""

    def can_run(self, key: DispatchKey, config: BiLMConfig) -> bool:
        """Return whether the kernel can compute for a dispatch key."""

    def prepare(self, model: BidirectionalLM, key: DispatchKey) -> Any:
        """Return the weights in the layout that the kernel reads, as above."""

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
        """Compute `model.read`, whose docstring describes arguments and results.
        prepared: the result of `prepare`."""
