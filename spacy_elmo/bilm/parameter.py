"""The weights of a new model."""

import torch
from torch import nn


def parameter(*shape: int) -> nn.Parameter:
    """Return a weight in float32, for any default dtype of torch. Its values are not
    set."""
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))
