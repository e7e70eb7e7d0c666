"""What a kernel is: the protocol that plan.py chooses by, and fast_bilm.py calls.

A kernel computes one part of the biLM, as the definition does up to rounding, for the
cases that it can run. It is a file here with the functions of a protocol below, named
in the list of its part in plan.py; `tests/bilm/kernels/test_kernels.py` then compares
it with the definition.

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
    library = None if traced or is_tracing() else find_library()
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
