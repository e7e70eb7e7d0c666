"""The LSTM layer by torch's own, which is cuDNN's on a GPU.

Torch's LSTM knows no clips, orders the gates i, f, g, o, and infers a projection from h
being narrower than c.

Shapes: as in lstm.py.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..config import BiLMConfig
from ..lstm import LstmLayer
from .cpu_lstm import gate_bias


def can_run(config: BiLMConfig) -> bool:
    """Return whether torch's LSTM can express a layer."""
    narrower = config.projection_dim < config.hidden_dim
    clips = config.cell_clip, config.proj_clip if config.lstm_projection else None
    return config.lstm_projection == narrower and clips == (None, None)


def run(
    layer: LstmLayer,
    x_NH: Tensor,
    batch_sizes: Sequence[int],
    h_BH: Tensor,
    c_BC: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `layer` returns."""
    bias = gate_bias(layer.bias, layer.config.forget_bias)
    weights = []
    for weight in (layer.weight_x.t(), layer.weight_h.t(), bias):
        o, i, f, g = weight.chunk(4)
        weights.append(torch.cat([i, f, g, o]).contiguous())
    weights.append(torch.zeros_like(bias))
    if layer.weight_p is not None:
        weights.append(layer.weight_p.t().contiguous())
    y_NH, h_1BH, c_1BC = torch.lstm(
        x_NH,
        torch.tensor(batch_sizes, device="cpu"),
        (h_BH[None].contiguous(), c_BC[None].contiguous()),
        weights,
        True,  # has biases
        1,  # layers
        0.0,  # dropout
        layer.training,
        False,  # bidirectional
    )
    return y_NH, h_1BH[0], c_1BC[0]
