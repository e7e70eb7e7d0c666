"""The LSTM layers of both directions by the C library, in one call.

Shapes: as in lstm.py; I columns of a layer's input.
"""

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...machine import zeros
from ..config import BiLMConfig
from ..lstm import BiLMState, LstmState
from ..model import BidirectionalLM
from . import native
from .kernel import DispatchKey, Inputs, Outputs
from .layer_by_layer import gate_bias
from .native import Library, checked_floats, checked_rows, pick


class Weights(NamedTuple):
    """Prepared weights.

    Attributes:
        library: The C library.
        mode: How it multiplies matrices (elmo.h).
        layers: An array of `elmo_layer` for each direction.
        tensors: The tensors that these point to.
    """

    library: Library
    mode: int
    layers: list[Any]
    tensors: list[Any]


def can_run(key: DispatchKey, config: BiLMConfig) -> bool:
    """Return whether the library can compute."""
    return key.is_native


@torch.no_grad()
def prepare(model: BidirectionalLM, key: DispatchKey) -> Weights:
    """Return the packed weights of both directions."""
    library = native.load(key.instructions)
    mode = library.mode(key.precision)
    packed = [
        [_pack(library, layer, mode) for layer in stack.layers]
        for stack in (model.forward_lstm, model.backward_lstm)
    ]
    layers = [library.array("elmo_layer", of_direction) for of_direction in packed]
    return Weights(library, mode, layers, packed)


def _pack(library: Library, layer: Any, mode: int) -> dict[str, Tensor]:
    """Return the packed weights of a layer by their names in elmo.h. A group of columns
    has the four gates of the same cells, so a step of these cells needs no other."""
    gates = library.columns(layer.config.hidden_dim, 4)
    packed = {
        "weight_x": library.pack(mode, gates, layer.weight_x),
        "weight_h": library.pack(mode, gates, layer.weight_h),
        "bias": pick(gates, gate_bias(layer.bias, layer.config.forget_bias)),
    }
    if layer.weight_p is not None:
        columns = library.columns(layer.config.projection_dim)
        packed["weight_p"] = library.pack(mode, columns, layer.weight_p)
    return packed


def read(model: BidirectionalLM, weights: Weights, inputs: Inputs) -> Outputs:
    """Compute `model.read(*inputs)`. There is no dropout: the library is not for
    training."""
    x_VH, *rows, batch_sizes, state, _ = inputs
    in_order = torch.arange(len(rows[0]), device="cpu")
    layers_LN2H, state = read_layers(
        model, weights, x_VH, rows, in_order, batch_sizes, state
    )
    ahead, back = layers_LN2H[1:].unbind(dim=2)
    return list(ahead), list(back), state


def read_layers(
    model: BidirectionalLM,
    weights: Weights,
    x_VH: Tensor,
    rows: Sequence[Tensor],
    write_back_N: Tensor,
    batch_sizes: Sequence[int],
    state: BiLMState | None,
) -> tuple[Tensor, BiLMState]:
    """Return the layers of both directions, (L+1, N, 2, H), and the state after the
    last step. Arguments are checked: with wrong ones the library would read and write
    foreign memory.

    Args:
        model: The model.
        weights: Its prepared weights.
        x_VH: Token vectors.
        rows: Row of x_VH at each position, (N,) for each direction.
        write_back_N: Row of the layers for each position of the backward direction.
        batch_sizes: Number of sequences that are longer than t, for each step t.
        state: The state before the first step; None for zeros.

    Raises:
        TypeError: A tensor has another shape or dtype.
        IndexError: A row does not exist.
        ValueError: The batch sizes grow, or don't add up to N.
        MemoryError: [EL096] There is no memory for the library's buffers.
    """
    config, library = model.config, weights.library
    L, H, C = config.n_layers, config.projection_dim, config.hidden_dim
    N, B, V = len(rows[0]), batch_sizes[0], len(x_VH)
    if sum(batch_sizes) != N or list(batch_sizes) != sorted(batch_sizes)[::-1]:
        raise ValueError(f"batch sizes of {sum(batch_sizes)} rows for {N}")
    x_VH = checked_floats(x_VH, V, H)
    read_rows = [checked_rows(rows_N, V, N) for rows_N in rows]
    in_order = torch.arange(N, device="cpu")
    write_rows = [in_order, checked_rows(write_back_N, N, N)]
    if state is None:
        h = [zeros((L, B, H), x_VH.device) for _ in range(2)]
        c = [zeros((L, B, C), x_VH.device) for _ in range(2)]
    else:
        h = [_copy(direction.h, L, B, H) for direction in state]
        c = [_copy(direction.c, L, B, C) for direction in state]
    layers = torch.empty(L + 1, N, 2, H, dtype=torch.float32, device="cpu")
    sizes = torch.tensor(batch_sizes, device="cpu")
    task = library.new(
        "elmo_reading",
        mode=weights.mode,
        residual=config.skip_connections,
        n_layers=L,
        width=H,
        cells=C,
        n_rows=N,
        n_sequences=B,
        n_steps=len(batch_sizes),
        batch_sizes=sizes,
        cell_clip=config.cell_clip or inf,
        proj_clip=config.proj_clip or inf,
        layers=weights.layers,
        x=x_VH,
        read_rows=read_rows,
        write_rows=write_rows,
        out=layers,
        h=h,
        c=c,
    )
    library.call("read", task)
    return layers, BiLMState(LstmState(h[0], c[0]), LstmState(h[1], c[1]))


def _copy(x: Tensor, *shape: int) -> Tensor:
    """Return a copy that the library may write to, by NumPy as in `checked_floats`."""
    return torch.from_numpy(checked_floats(x, *shape).numpy().copy())
