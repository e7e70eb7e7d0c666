"""The LSTM layer by `torch.lstm`, which is cuDNN's on a GPU.

It has no clips and orders the gates i, f, g, o. It takes a layer for a projected one if
h is narrower than c.

Shapes: as in lstm.py.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from ..config import BiLMConfig
from ..lstm import LstmLayer
from . import layer_by_layer
from .kernel import DispatchKey
from .layer_by_layer import gate_bias


def can_run(key: DispatchKey, config: BiLMConfig) -> bool:
    """Return whether `torch.lstm` can compute a layer. It has no half precision."""
    narrower = config.projection_dim < config.hidden_dim
    clips = config.cell_clip, config.proj_clip if config.lstm_projection else None
    expressed = config.lstm_projection == narrower and clips == (None, None)
    return expressed and (key.gradient or key.precision in ("float32", "tf32"))


def prepare_layer(layer: LstmLayer, key: DispatchKey) -> list[Tensor]:
    """Return the weights of a layer as `torch.lstm` reads them: the weights and biases
    of the input and of the state, and the projection if there is one. A bias of zeros
    is added."""
    bias = gate_bias(layer.bias, layer.config.forget_bias)
    weights = []
    for weight in (layer.weight_x.t(), layer.weight_h.t(), bias):
        o, i, f, g = weight.chunk(4)
        weights.append(torch.cat([i, f, g, o]).contiguous())
    weights.append(torch.zeros_like(bias))
    if layer.weight_p is not None:
        weights.append(layer.weight_p.t().contiguous())
    return weights if key.gradient else flatten(weights, layer.config)


def flatten(weights: list[Tensor], config: BiLMConfig) -> list[Tensor]:
    """Return weights without a gradient. On a GPU they lie in one piece of memory: from
    several pieces cuDNN would copy them in every call."""
    width, cells = config.projection_dim, config.hidden_dim
    with torch.device("meta"):
        lstm = nn.LSTM(width, cells, proj_size=width if config.lstm_projection else 0)
    names = [name for name, _ in lstm.named_parameters()]
    arrays = [weight.detach() for weight in weights]
    lstm.load_state_dict(dict(zip(names, arrays)), assign=True)
    lstm.flatten_parameters()
    return [parameter.detach() for parameter in lstm.parameters()]


def run(
    layer: LstmLayer,
    weights: list[Tensor],
    x_NH: Tensor,
    batch_sizes: Sequence[int],
    h_BH: Tensor,
    c_BC: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `layer.forward` by the weights of `prepare_layer`."""
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


prepare = partial(layer_by_layer.prepare, prepare_layer)
read = partial(layer_by_layer.read, run)
