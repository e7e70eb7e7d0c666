"""Reading both directions with a kernel of one LSTM layer.

Shapes: as in lstm.py.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop
from torch.nn.functional import embedding

from ..lstm import BiLMState, LstmStack, LstmState
from ..model import BidirectionalLM

# The kernel of a layer: (layer, its prepared weights, inputs (N, H), batch_sizes,
# h (B, H), c (B, C)) -> outputs (N, H), last h, last c.
ReadLayer = Callable[
    [Any, Any, Tensor, Sequence[int], Tensor, Tensor], tuple[Tensor, Tensor, Tensor]
]


def prepare_layers(
    model: BidirectionalLM, prepare: Callable[[Any], Any]
) -> list[list[Any]]:
    """Call `prepare` with each layer. Return its results by direction and layer."""
    stacks = model.forward_lstm, model.backward_lstm
    return [[prepare(layer) for layer in stack.layers] for stack in stacks]


def read(
    read_layer: ReadLayer,
    model: BidirectionalLM,
    prepared: list[list[Any]],
    x_VH: Tensor,
    forward_N: Tensor,
    backward_N: Tensor,
    batch_sizes: Sequence[int],
    state: BiLMState,
    dropout: float = 0.0,
) -> tuple[list[Tensor], list[Tensor], BiLMState]:
    """Compute `model.read` by `read_layer`, the kernel of a layer, with the prepared
    weights of each layer of each direction. `model.read` describes the other arguments.

    Autocast is off: kernels choose their own dtype, and states are carried in the dtype
    of the weights, since their errors would add up over a text.
    """
    with torch.autocast(x_VH.device.type, enabled=False):
        # The gradient of x_VH[rows_N] takes longer on a GPU (docs/kernels.md).
        inputs = [embedding(rows_N, x_VH) for rows_N in (forward_N, backward_N)]
        stacks = model.forward_lstm, model.backward_lstm
        (ahead, ahead_state), (back, back_state) = (
            _read_stack(read_layer, *each, batch_sizes, dropout)
            for each in zip(stacks, prepared, inputs, state)
        )
    return ahead, back, BiLMState(ahead_state, back_state)


def _read_stack(
    read_layer: ReadLayer,
    stack: LstmStack,
    prepared: list[Any],
    x_NH: Tensor,
    state: LstmState,
    batch_sizes: Sequence[int],
    dropout: float,
) -> tuple[list[Tensor], LstmState]:
    """Compute `LstmStack.forward`."""
    outputs, h_LBH, c_LBC = [], [], []
    x_NH = x_NH.to(state.h.dtype)
    for i, (layer, weights) in enumerate(zip(stack.layers, prepared)):
        dropped_NH = drop(x_NH, dropout, stack.training)
        y_NH, h_BH, c_BC = read_layer(
            layer, weights, dropped_NH, batch_sizes, state.h[i], state.c[i]
        )
        x_NH = y_NH + x_NH if stack.skip_connections and i > 0 else y_NH
        outputs.append(x_NH)
        h_LBH.append(h_BH)
        c_LBC.append(c_BC)
    return outputs, LstmState(torch.stack(h_LBH), torch.stack(c_LBC))
