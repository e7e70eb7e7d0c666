"""The LSTM layer by torch's own, which is cuDNN's on a GPU.

Torch's LSTM knows no clips, orders the gates i, f, g, o, and infers a projection from h
being narrower than c.

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
from .kernel import Case
from .torch_lstm import gate_bias


def can_run(case: Case, config: BiLMConfig) -> bool:
    """Return whether torch's LSTM can express a layer. It rounds to nothing but
    TF32."""
    narrower = config.projection_dim < config.hidden_dim
    clips = config.cell_clip, config.proj_clip if config.lstm_projection else None
    expressed = config.lstm_projection == narrower and clips == (None, None)
    return expressed and (case.gradient or case.precision in ("float32", "tf32"))


def prepare(model: BidirectionalLM, case: Case) -> list[list[list[Tensor]]]:
    """Return each layer's weights as torch's LSTM has them."""
    make = reorder if case.gradient else flatten

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
    """Return a layer's weights as torch's LSTM has them."""
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
    """Return what `reorder` does, without gradients and, on a GPU, in the one piece of
    memory that cuDNN reads them from: else it would copy them there in every call."""
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
    """Return what `layer` returns. weights: its own, by `reorder` or `flatten`."""
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
