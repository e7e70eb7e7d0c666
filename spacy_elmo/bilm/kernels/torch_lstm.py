"""The LSTM layers without a gradient in PyTorch, for GPUs, for weights that are not
float32, and for CPUs without the C library.

A layer differs from the definition in two ways:

- tanh(x) is computed as 2 sigmoid(2x) - 1, since torch's tanh takes ten times as long
  as its sigmoid (docs/kernels.md). The state is stored as 2c. All other factors of 2
  and -1 are in the weights, where they cost nothing;
- the views of all steps are made at once, and the state of a step is the output of the
  step before, not a copy of it.

Shapes: as in lstm.py; I columns of the input.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ..config import BiLMConfig
from ..lstm import LstmLayer
from ..model import BidirectionalLM
from . import layer_by_layer
from .kernel import DispatchKey, Inputs, Outputs
from .layer_by_layer import gate_bias, last_rows, one_after_another
from .matmul import linear

# Bytes of gates that a CPU computes at once (docs/kernels.md).
BLOCK_BYTES = 16 << 20


class PackedWeights(NamedTuple):
    """The prepared weights of a layer, and its bias with the forget gate's constant."""

    x: Tensor
    h: Tensor
    bias: Tensor
    p: Tensor | None


def can_run(key: DispatchKey, config: BiLMConfig) -> bool:
    """Return whether no gradient is asked for. On a CPU the number of sequences decides
    what is computed, and torch can't record that."""
    return not (key.gradient or (key.traced and key.device == "cpu"))


def pack(layer: LstmLayer, key: DispatchKey) -> PackedWeights:
    """Return the weights of a layer for `run`: with the recurrent weights of g doubled,
    and the projection negated."""
    dtype = key.matmul_dtype
    doubled_H4C = layer.weight_h.detach().clone()
    doubled_H4C[:, 3 * doubled_H4C.shape[1] // 4 :] *= 2
    p = layer.weight_p
    return PackedWeights(
        layer.weight_x.detach().to(dtype),
        doubled_H4C.to(dtype),
        gate_bias(layer.bias.detach(), layer.config.forget_bias),
        None if p is None else -p.detach().to(dtype),
    )


def run(
    layer: LstmLayer,
    packed: PackedWeights,
    x_NI: Tensor,
    batch_sizes: Sequence[int],
    h_BH: Tensor,
    c_BC: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `layer.forward` by the weights of `pack`. A CPU reads one sequence."""
    C = c_BC.shape[1]
    cell_clip, proj_clip = layer.config.cell_clip, layer.config.proj_clip
    y_NH = x_NI.new_empty(len(x_NI), h_BH.shape[1])
    outputs = y_NH.split(batch_sizes)
    h, c2_BC = h_BH, 2 * c_BC
    c2, m, rows = c2_BC, torch.empty_like(c2_BC), 0
    on_cpu = x_NI.device.type == "cpu"  # a GPU is faster with all rows at once
    n_rows = max(1, BLOCK_BYTES // (16 * C)) if on_cpu else len(x_NI)
    for first in range(0, len(x_NI), n_rows):
        some = slice(first, first + n_rows)  # of the rows, and of the steps
        gates_N4C = linear(x_NI[some], packed.x, packed.bias)
        gates_N4C[:, 3 * C :] *= 2
        sizes = batch_sizes[some]
        views = [part.split(sizes) for part in gates_N4C.split(C, dim=1)]
        for b, z, o, i, f, g, y in zip(
            sizes, gates_N4C.split(sizes), *views, outputs[some], strict=True
        ):
            if b != rows:
                rows, h, c2, m = b, h[:b], c2[:b], m[:b]
            if h.dtype == packed.h.dtype:
                z.addmm_(h, packed.h)
            else:
                z.add_(linear(h, packed.h))
            z.sigmoid_()
            # 2 i tanh(.) = 4 i g - 2 i
            c2.mul_(f).addcmul_(i, g, value=4).sub_(i, alpha=2)
            if cell_clip is not None:
                c2.clamp_(-2 * cell_clip, 2 * cell_clip)
            # -o tanh(c) = o - 2 o sigmoid(2c)
            torch.addcmul(o, o, torch.sigmoid(c2, out=m), value=-2, out=m)
            if packed.p is None:
                h = torch.neg(m, out=y)
            elif proj_clip is None:
                h = y.copy_(linear(m, packed.p))
            else:
                h = torch.clamp(linear(m, packed.p), -proj_clip, proj_clip, out=y)
        del gates_N4C, views, z, o, i, f, g  # before the next block's are made
    return y_NH, last_rows(y_NH, batch_sizes), c2_BC / 2


def read(
    model: BidirectionalLM, prepared: list[list[PackedWeights]], inputs: Inputs
) -> Outputs:
    """Compute `model.read(*inputs)`, on a CPU one sequence after another."""
    read_some = partial(layer_by_layer.read, run, model, prepared)
    if inputs.x_VH.device.type != "cpu":
        return read_some(inputs)
    return one_after_another(read_some, inputs)


prepare = partial(layer_by_layer.prepare, pack)
