"""The LSTM layer without its gradient, for speed.

What it does otherwise than the textbook's loop, and what that brought (small published
size, 64 English sentences, one thread, against the loop of lstm_training.py):
- products with weights kept in the order that they are read in (products.py): 1.6x;
- tanh(x) = 2 sigmoid(2x) - 1, since torch's tanh takes ten times as long as its
  sigmoid. The state is kept as 2c, and what else is doubled or negated is so in the
  weights, where it costs nothing: 1.25x;
- views of all steps are made at once, and the state of a step is the output of the one
  before, not a copy of it.

Shapes: as in lstm.py.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from .products import Product

# The input half of the gates is computed for so much at once: a block stays in the
# cache until its steps are done, and in the memory that the one before it left.
BLOCK_BYTES = 16 << 20


def double_candidate(weight_H4C: Tensor) -> Tensor:
    weight_H4C = weight_H4C.clone()
    weight_H4C[:, weight_H4C.shape[1] // 4 * 3 :] *= 2
    return weight_H4C


def negate(weight_CH: Tensor) -> Tensor:
    return -weight_CH


def infer(
    x_NI: Tensor,
    weight_x: Tensor,
    weight_h: Tensor,
    bias: Tensor,
    weight_p: Tensor | None,
    h_BH: Tensor,
    c_BC: Tensor,
    batch_sizes: Sequence[int],
    cell_clip: float | None,
    proj_clip: float | None,
    *,
    by_x: Product,
    by_h: Product,
    by_p: Product,
) -> tuple[Tensor, Tensor, Tensor]:
    """As `lstm_training.TrainedLayer`. by_x, by_h, by_p: products with the weights, of
    which h's and p's are prepared by the functions above."""
    C = c_BC.shape[1]
    y_NH = x_NI.new_empty(len(x_NI), h_BH.shape[1])
    outputs = y_NH.split(batch_sizes)
    h, c2 = h_BH, 2 * c_BC
    c2_BC, m = c2, torch.empty_like(c2)
    factor_x = by_x.factor(weight_x)
    factor_h = by_h.factor(weight_h)
    factor_p = None if weight_p is None else by_p.factor(weight_p)
    for steps, rows in _blocks(batch_sizes, BLOCK_BYTES // (16 * C)):
        gates_N4C = factor_x.times(x_NI[rows], bias, of=len(x_NI))
        gates_N4C[:, 3 * C :] *= 2
        sizes = batch_sizes[steps]
        views = [part.split(sizes) for part in gates_N4C.split(C, dim=1)]
        for z, o, i, f, g, y in zip(
            gates_N4C.split(sizes), *views, outputs[steps], strict=True
        ):
            if len(z) < len(h):
                b = len(z)
                h, c2, m = h[:b], c2[:b], m[:b]
            factor_h.add_to(z, h)
            z.sigmoid_()
            # 2 i tanh(.) = 4 i g - 2 i
            c2.mul_(f).addcmul_(i, g, value=4).sub_(i, alpha=2)
            if cell_clip is not None:
                c2.clamp_(-2 * cell_clip, 2 * cell_clip)
            # -o tanh(c) = o - 2 o sigmoid(2c)
            torch.addcmul(o, o, torch.sigmoid(c2, out=m), value=-2, out=m)
            if factor_p is None:
                h = torch.neg(m, out=y)
            else:
                h = y.copy_(factor_p.times(m))
                if proj_clip is not None:
                    h.clamp_(-proj_clip, proj_clip)
    return y_NH, _last(outputs, batch_sizes), c2_BC / 2


def _blocks(batch_sizes: Sequence[int], n_rows: int) -> Iterator[tuple[slice, slice]]:
    """Steps, and their rows, in blocks of n_rows or of one step at least."""
    first_step = first_row = rows = 0
    for step, b in enumerate(batch_sizes):
        if rows and rows + b > n_rows:
            yield slice(first_step, step), slice(first_row, first_row + rows)
            first_step, first_row, rows = step, first_row + rows, 0
        rows += b
    yield slice(first_step, len(batch_sizes)), slice(first_row, first_row + rows)


def _last(outputs: Sequence[Tensor], batch_sizes: Sequence[int]) -> Tensor:
    """The last output of every sequence: what a step has and the next has not."""
    ends = [
        y[b_next:]
        for y, (b, b_next) in zip(outputs, pairwise([*batch_sizes, 0]))
        if b_next < b
    ]
    return torch.cat(ends[::-1])
