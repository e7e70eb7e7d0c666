"""Both directions by a kernel of one LSTM layer.

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

# A layer, its prepared weights, inputs (N, H), batch_sizes, h (B, H) and c (B, C) ->
# outputs (N, H), last h and last c.
ReadLayer = Callable[
    [Any, Any, Tensor, Sequence[int], Tensor, Tensor], tuple[Tensor, Tensor, Tensor]
]


def prepare_layers(
    model: BidirectionalLM, prepare: Callable[[Any], Any]
) -> list[list[Any]]:
    """Return what `prepare` makes of each layer of each direction."""
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
    """Return what `model.read` returns. Autocast is off inside: a kernel rounds as it
    is told to, and states are carried in the dtype of the weights, since their errors
    would add up over a text."""
    with torch.autocast(x_VH.device.type, enabled=False):
        # The gradient of x_VH[...] was 6 % of a training step on an NVIDIA H200.
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
    """Return what the stack returns."""
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
