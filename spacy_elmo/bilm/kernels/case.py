"""What kernels are chosen by."""

from typing import NamedTuple

import torch
from torch import Tensor

from .processor import Precision, Processor, processor_of


class Settings(NamedTuple):
    """What users choose of a model's inference.

    precision: see processor.py. exact: whether a sentence has the same vectors in any
    batch, bit for bit.
    """

    precision: Precision = "float32"
    exact: bool = False


class Case(NamedTuple):
    """What a kernel is chosen by.

    gradient: whether one is asked for. dtype: of the weights.
    """

    processor: Processor
    precision: Precision = "float32"
    exact: bool = False
    gradient: bool = False
    dtype: torch.dtype = torch.float32


def case_of(settings: Settings, weight: Tensor) -> Case:
    """Return the case that a layer with this weight is in."""
    return Case(
        processor_of(weight.device), *settings, torch.is_grad_enabled(), weight.dtype
    )
