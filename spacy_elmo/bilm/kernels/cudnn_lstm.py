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
from ..model import BidirectionalLM
from . import layer_by_layer
from .kernel import DispatchKey
from .torch_lstm import gate_bias


def can_run(key: DispatchKey, config: BiLMConfig) -> bool:
    """Return whether `torch.lstm` can compute a layer. It has no half precision."""
    narrower = config.projection_dim < config.hidden_dim
    clips = config.cell_clip, config.proj_clip if config.lstm_projection else None
    expressed = config.lstm_projection == narrower and clips == (None, None)
    return expressed and (key.gradient or key.precision in ("float32", "tf32"))


def prepare(model: BidirectionalLM, key: DispatchKey) -> list[list[list[Tensor]]]:
    """Return the weights for `torch.lstm`, of each layer of each direction."""
    make = reorder if key.gradient else flatten

    def prepare_layer(layer: LstmLayer) -> list[Tensor]:
        every = layer.weight_x, layer.weight_h, layer.bias, layer.weight_p
        weights = [weight for weight in every if weight is not None]
        return make(*weights, forget_bias=layer.config.forget_bias)

    return layer_by_layer.prepare_layers(model, prepare_layer)


def reorder(
    weight_x: Tensor,
    weight_h: Tensor,
    bias: Tensor,
    weight_p: Tensor | None = None,
    *,
    forget_bias: float,
) -> list[Tensor]:
    """Return the weights of a layer as `torch.lstm` reads them.

    Args:
        weight_x: Weights of the input, (I, 4C).
        weight_h: Weights of the state, (H, 4C).
        bias: Bias, (4C,).
        weight_p: Projection, (C, H), None for none.
        forget_bias: Constant that is added to the bias of the forget gate.
    """
    bias = gate_bias(bias, forget_bias)
    weights = []
    for weight in (weight_x.t(), weight_h.t(), bias):
        o, i, f, g = weight.chunk(4)
        weights.append(torch.cat([i, f, g, o]).contiguous())
    weights.append(torch.zeros_like(bias))
    if weight_p is not None:
        weights.append(weight_p.t().contiguous())
    return weights


def flatten(*weights: Tensor, forget_bias: float) -> list[Tensor]:
    """Reorder weights without recording gradients. On a GPU the result lies in one
    piece of memory: from several pieces cuDNN would copy them in every call."""
    with torch.no_grad():
        arrays = reorder(*weights, forget_bias=forget_bias)
        width, cells = weights[0].shape[0], weights[1].shape[1] // 4
        narrow = weights[1].shape[0] if len(weights) == 4 else 0
        with torch.device("meta"):
            lstm = nn.LSTM(width, cells, proj_size=narrow)
        names = [name for name, _ in lstm.named_parameters()]
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
    """Return outputs (N, H), and every sequence's last h (B, H) and c (B, C).

    Args:
        layer: The layer.
        weights: Its weights, by `reorder` or `flatten`.
        x_NH: Inputs of all steps.
        batch_sizes: Number of sequences that are longer than t, for each step t.
        h_BH: Outputs of the step before the first.
        c_BC: Cells of the step before the first.
    """
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


read = partial(layer_by_layer.read, run)
