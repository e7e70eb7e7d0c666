"""What all weights of a model are made by."""

import torch
from torch import nn


def parameter(*shape: int) -> nn.Parameter:
    """Return a weight without values, float32 whatever torch's default type is."""
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))
