"""Reading both directions with a kernel of one LSTM layer, or of one sequence, and what
such kernels share.

Shapes: as in lstm.py.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop
from torch.nn.functional import embedding

from ...machine import thread_count
from ..lstm import BiLMState, LstmStack, LstmState
from ..model import BidirectionalLM
from .kernel import DispatchKey, Inputs, Outputs

# The kernel of a layer, `LstmLayer.forward` with prepared weights: (layer, weights,
# inputs (N, H), batch_sizes, h (B, H), c (B, C)) -> outputs (N, H), last h, last c.
ReadLayer = Callable[
    [Any, Any, Tensor, Sequence[int], Tensor, Tensor], tuple[Tensor, Tensor, Tensor]
]


def prepare(
    prepare_layer: Callable[[Any, DispatchKey], Any],
    model: BidirectionalLM,
    key: DispatchKey,
) -> list[list[Any]]:
    """Return the weights of each layer of each direction, by `prepare_layer`."""
    stacks = model.forward_lstm, model.backward_lstm
    return [[prepare_layer(layer, key) for layer in stack.layers] for stack in stacks]


def read(
    read_layer: ReadLayer,
    model: BidirectionalLM,
    prepared: list[list[Any]],
    inputs: Inputs,
) -> Outputs:
    """Compute `model.read(*inputs)` by the kernel of a layer, with the prepared weights
    of each layer of each direction."""
    x_VH, forward_N, backward_N, batch_sizes, state, dropout = inputs
    # The gradient of x_VH[rows_N] takes longer on a GPU (docs/kernels.md).
    xs = [embedding(rows_N, x_VH) for rows_N in (forward_N, backward_N)]
    stacks = model.forward_lstm, model.backward_lstm
    (ahead, ahead_state), (back, back_state) = (
        read_stack(read_layer, *each, batch_sizes, dropout)
        for each in zip(stacks, prepared, xs, state)
    )
    return ahead, back, BiLMState(ahead_state, back_state)


def read_stack(
    read_layer: ReadLayer,
    stack: LstmStack,
    prepared: list[Any],
    x_NH: Tensor,
    state: LstmState,
    batch_sizes: Sequence[int],
    dropout: float,
) -> tuple[list[Tensor], LstmState]:
    """Compute `stack.forward` by the kernel of a layer."""
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


def one_after_another(read_one: Callable[[Inputs], Outputs], inputs: Inputs) -> Outputs:
    """Read one sequence after another by `read_one`, on one thread. So a sequence has
    the same bits in any batch.

    Some functions of torch, such as sigmoid and addcmul, round a number by its place in
    a tensor, so a row would depend on the other rows. Several threads would sum in
    another order.
    """
    sizes_T = torch.tensor(inputs.batch_sizes)
    first_T = sizes_T.cumsum(0) - sizes_T
    rows = [first_T[sizes_T > b] + b for b in range(inputs.batch_sizes[0])]
    with thread_count(1):
        found = [
            read_one(
                inputs._replace(
                    forward_N=inputs.forward_N[rows_T],
                    backward_N=inputs.backward_N[rows_T],
                    batch_sizes=[1] * len(rows_T),
                    state=inputs.state.rows(slice(b, b + 1)),
                )
            )
            for b, rows_T in enumerate(rows)
        ]
    aheads, backs, states = zip(*found)
    packed_N = torch.argsort(torch.cat(rows))
    ahead, back = (
        [torch.cat(outputs)[packed_N] for outputs in zip(*sequences)]
        for sequences in (aheads, backs)
    )
    return ahead, back, BiLMState.join(states)


def gate_bias(bias: Tensor, forget_bias: float) -> Tensor:
    """Return the bias of a layer with the forget gate's constant added, (4C,)."""
    o, i, f, g = bias.chunk(4)
    return torch.cat([o, i, f + forget_bias, g])


# Functions of packed rows. `dim` is the dimension of the rows.


def steps(
    batch_sizes: Sequence[int], *rows: Tensor, dim: int = 0
) -> Iterator[tuple[Any, ...]]:
    """Yield the number of rows of each step and its rows of each tensor."""
    sizes = list(batch_sizes)
    return zip(sizes, *(tensor.split(sizes, dim) for tensor in rows), strict=True)


def last_rows(rows_N: Tensor, batch_sizes: Sequence[int], dim: int = 0) -> Tensor:
    """Return the last row of every sequence, (B, columns), or (2, B, columns) of rows
    of both directions, with dim=1."""
    sizes = list(batch_sizes)
    ends = [
        step.narrow(dim, b_next, b - b_next)
        for step, (b, b_next) in zip(rows_N.split(sizes, dim), pairwise([*sizes, 0]))
        if b_next < b
    ]
    return torch.cat(ends[::-1], dim)


def one_step_before(
    rows_N: Tensor, first_B: Tensor, batch_sizes: Sequence[int], dim: int = 0
) -> Tensor:
    """Return the rows of the step before, for the same sequences in the same order.

    Args:
        rows_N: Packed rows of all steps.
        first_B: Rows before the first step.
        batch_sizes: Number of rows of each step.
        dim: The dimension of the rows.
    """
    sizes = list(batch_sizes)
    before = [first_B, *rows_N.split(sizes, dim)]
    return torch.cat([rows.narrow(dim, 0, b) for rows, b in zip(before, sizes)], dim)
