"""The LSTM layer without a gradient, for speed.

How it differs from the definition, and what that brought (small published size, 64
English sentences, one thread, against the loop of autograd_lstm.py):

- weights in the order that they are read in (matmul.py): 1.6x;
- tanh(x) = 2 sigmoid(2x) - 1, since torch's tanh takes ten times as long as its
  sigmoid. The state is kept as 2c, and what else is doubled or negated is so in the
  weights, where it costs nothing: 1.25x;
- views of all steps are made at once, and the state of a step is the output of the one
  before, not a copy of it.

It runs on a GPU too, where cuDNN does not know the layer.

Shapes: as in lstm.py; I columns of the input.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from ..lstm import LstmLayer
from .matmul import Rule, TorchMatmul, Weight


class PackedWeights(NamedTuple):
    """A layer's weights, prepared to be multiplied by, and its bias."""

    x: TorchMatmul
    h: TorchMatmul
    bias: Tensor
    p: TorchMatmul | None


def pack(
    weight_x: Tensor,
    weight_h: Tensor,
    bias: Tensor,
    weight_p: Tensor | None = None,
    *,
    forget_bias: float,
    rules: Sequence[Rule],
    recurrent: Sequence[Rule],
) -> PackedWeights:
    """Return weights prepared for `run`: h's candidate g doubled, p negated. recurrent:
    the rules of these two."""
    h = Weight(partial(_doubled, weight_h.detach()), rules=recurrent, is_copy=True)
    p = None
    if weight_p is not None:
        p = Weight(weight_p.detach().neg, rules=recurrent, is_copy=True)
    x = Weight(weight_x.detach, rules=rules)
    return PackedWeights(x, h, gate_bias(bias.detach(), forget_bias), p)


def _doubled(weight_H4C: Tensor) -> Tensor:
    doubled = weight_H4C.clone()
    doubled[:, 3 * weight_H4C.shape[1] // 4 :] *= 2
    return doubled


def run(
    layer: LstmLayer,
    packed: PackedWeights,
    x_NI: Tensor,
    batch_sizes: Sequence[int],
    h_BH: Tensor,
    c_BC: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `layer` returns. packed: its weights, by `pack`."""
    C = c_BC.shape[1]
    cell_clip, proj_clip = layer.config.cell_clip, layer.config.proj_clip
    y_NH = x_NI.new_empty(len(x_NI), h_BH.shape[1])
    outputs = y_NH.split(batch_sizes)
    h, c2_BC = h_BH, 2 * c_BC
    c2, m, rows = c2_BC, torch.empty_like(c2_BC), 0
    weight_x = packed.x.at(len(x_NI))
    on_cpu = x_NI.device.type == "cpu"  # elsewhere all rows at once are faster
    n_rows = weight_x.block_bytes // (16 * C) if on_cpu else len(x_NI)
    for steps, block in blocks(batch_sizes, n_rows):
        gates_N4C = weight_x.linear(x_NI[block], packed.bias)
        gates_N4C[:, 3 * C :] *= 2
        sizes = batch_sizes[steps]
        views = [part.split(sizes) for part in gates_N4C.split(C, dim=1)]
        for b, z, o, i, f, g, y in zip(
            sizes, gates_N4C.split(sizes), *views, outputs[steps], strict=True
        ):
            if b != rows:
                rows, h, c2, m = b, h[:b], c2[:b], m[:b]
                # The end of a batch's longest sentence is read as its beginning is.
                n = b if batch_sizes[0] == 1 else max(b, 2)
                add_recurrent = packed.h.at(n).add_to
                project = None if packed.p is None else packed.p.at(n).linear
            add_recurrent(z, h)
            z.sigmoid_()
            # 2 i tanh(.) = 4 i g - 2 i
            c2.mul_(f).addcmul_(i, g, value=4).sub_(i, alpha=2)
            if cell_clip is not None:
                c2.clamp_(-2 * cell_clip, 2 * cell_clip)
            # -o tanh(c) = o - 2 o sigmoid(2c)
            torch.addcmul(o, o, torch.sigmoid(c2, out=m), value=-2, out=m)
            if project is None:
                h = torch.neg(m, out=y)
            elif proj_clip is None:
                h = y.copy_(project(m))
            else:
                h = torch.clamp(project(m), -proj_clip, proj_clip, out=y)
        del gates_N4C, views, z, o, i, f, g  # before the next block's are made
    return y_NH, last_rows(y_NH, batch_sizes), c2_BC / 2


def last_rows(rows_N: Tensor, batch_sizes: Sequence[int]) -> Tensor:
    """Return the last row of every sequence: what a step has and the next has not."""
    sizes = list(batch_sizes)
    ends = zip(rows_N.split(sizes), pairwise([*sizes, 0]))
    return torch.cat([y[b_next:] for y, (b, b_next) in ends if b_next < b][::-1])


def gate_bias(bias: Tensor, forget_bias: float) -> Tensor:
    """Return a layer's bias, the forget gate's constant included, (4C,)."""
    o, i, f, g = bias.chunk(4)
    return torch.cat([o, i, f + forget_bias, g])


def blocks(batch_sizes: Sequence[int], n_rows: int) -> Iterator[tuple[slice, slice]]:
    """Yield steps, and their rows, in blocks of n_rows or of one step at least."""
    first_step = first_row = rows = 0
    for step, b in enumerate(batch_sizes):
        if rows and rows + b > n_rows:
            yield slice(first_step, step), slice(first_row, first_row + rows)
            first_step, first_row, rows = step, first_row + rows, 0
        rows += b
    yield slice(first_step, len(batch_sizes)), slice(first_row, first_row + rows)
