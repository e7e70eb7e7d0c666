"""The LSTM layers of both directions by the C library, in one call.

Shapes: as in lstm.py; I columns of a layer's input.
"""

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..config import BiLMConfig
from ..lstm import BiLMState, LstmState
from ..model import BidirectionalLM
from . import native
from .kernel import DispatchKey, Inputs, Outputs
from .layer_by_layer import gate_bias
from .native import Library, address, checked_floats, checked_rows, pick


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
    tensors: list[Tensor]


def can_run(key: DispatchKey, config: BiLMConfig) -> bool:
    """Return whether the library can compute."""
    return key.is_native


@torch.no_grad()
def prepare(model: BidirectionalLM, key: DispatchKey) -> Weights:
    """Return the packed weights of both directions."""
    library = native.load(key.instructions)
    mode, directions = library.mode(key.precision), []
    tensors: list[Tensor] = []
    for stack in (model.forward_lstm, model.backward_lstm):
        structs = library.array("elmo_layer", len(stack.layers))
        for struct, layer in zip(structs, stack.layers):
            packed = _pack(library, layer, mode)
            tensors += packed.values()
            for name, tensor in packed.items():
                setattr(struct, name, address(tensor))
        directions.append(structs)
    return Weights(library, mode, directions, tensors)


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
    layers_LN2H, state = _read(model, weights, x_VH, rows, in_order, batch_sizes, state)
    ahead, back = layers_LN2H[1:].unbind(dim=2)
    return list(ahead), list(back), state


def read_layers(
    model: BidirectionalLM,
    weights: Weights,
    x_VH: Tensor,
    word_N: Tensor,
    reversed_N: Tensor,
    batch_sizes: Sequence[int],
    state: BiLMState | None,
) -> tuple[Tensor, BiLMState]:
    """Compute `model.read` and `model.join` at once, with the arguments and results of
    `FastBiLM.layers`."""
    rows = word_N, word_N[reversed_N]
    layers_LN2H, state = _read(
        model, weights, x_VH, rows, reversed_N, batch_sizes, state
    )
    return layers_LN2H.flatten(2), state


def _read(
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
    N, B, T = len(rows[0]), batch_sizes[0], len(batch_sizes)
    if sum(batch_sizes) != N or list(batch_sizes) != sorted(batch_sizes)[::-1]:
        raise ValueError(f"batch sizes of {sum(batch_sizes)} rows for {N}")
    x_VH = checked_floats(x_VH, len(x_VH), H)
    read_ahead = checked_rows(rows[0], len(x_VH), N)
    read_back = checked_rows(rows[1], len(x_VH), N)
    write_rows = [torch.arange(N, device="cpu"), checked_rows(write_back_N, N, N)]
    if state is None:
        h = [x_VH.new_zeros(L, B, H), x_VH.new_zeros(L, B, H)]
        c = [x_VH.new_zeros(L, B, C), x_VH.new_zeros(L, B, C)]
    else:
        h = [checked_floats(direction.h, L, B, H).clone() for direction in state]
        c = [checked_floats(direction.c, L, B, C).clone() for direction in state]
    layers = torch.empty(L + 1, N, 2, H, dtype=torch.float32, device="cpu")
    sizes = library.array("int64_t", list(batch_sizes))
    task = library.new(
        "elmo_reading",
        mode=weights.mode,
        residual=config.skip_connections,
        n_layers=L,
        width=H,
        cells=C,
        n_rows=N,
        n_sequences=B,
        n_steps=T,
        batch_sizes=sizes,
        cell_clip=config.cell_clip or inf,
        proj_clip=config.proj_clip or inf,
        layers=weights.layers,
        x=x_VH,
        read_rows=[address(read_ahead), address(read_back)],
        write_rows=list(map(address, write_rows)),
        out=layers,
        h=list(map(address, h)),
        c=list(map(address, c)),
    )
    library.call("read", task)
    return layers, BiLMState(LstmState(h[0], c[0]), LstmState(h[1], c[1]))
