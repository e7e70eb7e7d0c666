"""The LSTM layer with an explicit backward pass.

Autograd would add up the weights' gradients step by step; here each is one matrix
multiplication over all steps. What is pointwise is computed step by step, while the
rows of a step lie in the processor's cache: over all steps at once it waited for the
memory, and took two thirds of the time of a layer in bfloat16.

Shapes: as in lstm.py; I columns of the input. A gradient of x is named d_x.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..lstm import LstmLayer
from .cpu_lstm import gate_bias, last_rows

_of_sigmoid = torch.ops.aten.sigmoid_backward.grad_input
_of_tanh = torch.ops.aten.tanh_backward.grad_input


def run(
    layer: LstmLayer,
    x_NI: Tensor,
    batch_sizes: Sequence[int],
    h_BH: Tensor,
    c_BC: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what the layer returns.

    Matrix multiplications are of dtype, and so is what a step keeps for its gradient.
    The cells that are carried are not: their errors would add up over a text.
    """
    config = layer.config
    bias = gate_bias(layer.bias, config.forget_bias)
    settings = batch_sizes, config.cell_clip, config.proj_clip, dtype
    return _LstmFunction.apply(
        x_NI, layer.weight_x, layer.weight_h, bias, layer.weight_p, h_BH, c_BC, settings
    )


class _LstmFunction(torch.autograd.Function):
    """One layer over all steps."""

    @staticmethod
    def forward(
        ctx: Any,
        x_NI: Tensor,
        weight_x: Tensor,
        weight_h: Tensor,
        bias: Tensor,
        weight_p: Tensor | None,
        h_BH: Tensor,
        c_BC: Tensor,
        settings: tuple[Sequence[int], float | None, float | None, torch.dtype],
    ) -> tuple[Tensor, Tensor, Tensor]:
        batch_sizes, cell_clip, proj_clip, dtype = ctx.settings = settings
        (B, C), whole, N = c_BC.shape, c_BC.dtype, len(x_NI)
        x_NI, h, low_h = x_NI.to(dtype), h_BH.to(dtype), weight_h.to(dtype)
        low_p = None if weight_p is None else weight_p.to(dtype)
        first = h, c_BC.to(dtype)
        c_BC, gates_B4C = c_BC.clone(), c_BC.new_empty(B, 4 * C)
        # The input half of every gate of every step at once.
        gates_N4C = torch.mm(x_NI, weight_x.to(dtype))
        cells_NC, tanh_c_NC, m_NC = x_NI.new_empty(3, N, C)
        y_NH = m_NC if low_p is None else x_NI.new_empty(N, h_BH.shape[1])
        for b, z, cell, tanh_c, m, y in _steps(
            batch_sizes, gates_N4C, cells_NC, tanh_c_NC, m_NC, y_NH
        ):
            z.addmm_(h[:b], low_h)
            gates = z if dtype == whole else gates_B4C[:b].copy_(z)
            gates += bias
            gates[:, : 3 * C].sigmoid_()
            gates[:, 3 * C :].tanh_()
            o, i, f, g = gates.split(C, dim=1)
            c = c_BC[:b].mul_(f).addcmul_(i, g)
            if cell_clip is not None:
                c.clamp_(-cell_clip, cell_clip)
            cell.copy_(c)
            torch.mul(o, tanh_c.copy_(torch.tanh(c)), out=m)
            if low_p is not None:
                torch.mm(m, low_p, out=y)
                if proj_clip is not None:
                    y.clamp_(-proj_clip, proj_clip)
            if gates is not z:
                z.copy_(gates)
            h = y
        ctx.save_for_backward(
            *(x_NI, weight_x, weight_h, weight_p, *first),
            *(gates_N4C, cells_NC, tanh_c_NC, m_NC, y_NH),
        )
        return y_NH.to(whole), last_rows(y_NH, batch_sizes).to(whole), c_BC

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y_NH: Tensor, d_h_BH: Tensor, d_c_BC: Tensor) -> Any:
        x_NI, weight_x, weight_h, weight_p, first_h_BH, first_c_BC, *rest = (
            ctx.saved_tensors
        )
        gates_N4C, cells_NC, tanh_c_NC, m_NC, y_NH = rest
        batch_sizes, cell_clip, proj_clip, dtype = ctx.settings
        C, whole = d_c_BC.shape[1], d_c_BC.dtype
        d_h_BH, d_c_BC, d_bias = d_h_BH.clone(), d_c_BC.clone(), d_c_BC.new_zeros(4 * C)
        c_before_NC = _one_step_before(cells_NC, first_c_BC, batch_sizes)
        h_T = weight_h.t().to(dtype).contiguous()
        p_T = None if weight_p is None else weight_p.t().to(dtype).contiguous()
        d_z_N4C, d_p_NH = torch.empty_like(gates_N4C), torch.empty_like(y_NH)
        some_BC = torch.empty_like(first_c_BC)
        steps = _steps(
            batch_sizes,
            *(gates_N4C, cells_NC, c_before_NC, tanh_c_NC),
            *(y_NH, d_y_NH, d_z_N4C, d_p_NH),
        )
        for b, gates, cell, before, tanh_c, y, d_y, d_z, d_p in reversed(list(steps)):
            o, i, f, g = gates.split(C, dim=1)
            d_o, d_i, d_f, d_g = d_z.split(C, dim=1)
            d_h, d_c, some = d_h_BH[:b], d_c_BC[:b], some_BC[:b]
            torch.add(d_y, d_h, out=d_p)
            if proj_clip is not None and weight_p is not None:
                d_p.mul_(y.abs() < proj_clip)
            d_m = d_p if p_T is None else torch.mm(d_p, p_T)
            _of_sigmoid(torch.mul(d_m, tanh_c, out=some), o, grad_input=d_o)
            _of_tanh(torch.mul(d_m, o, out=some), tanh_c, grad_input=some)
            d_c += some
            if cell_clip is not None:  # a clipped cell passes nothing to its gates
                d_c.mul_(cell.abs() < cell_clip)
            low_d_c = d_c.to(dtype)
            _of_sigmoid(torch.mul(low_d_c, g, out=some), i, grad_input=d_i)
            _of_sigmoid(torch.mul(low_d_c, before, out=some), f, grad_input=d_f)
            _of_tanh(torch.mul(low_d_c, i, out=some), g, grad_input=d_g)
            d_c *= f.to(whole)
            d_bias += d_z.sum(0)
            d_h.copy_(torch.mm(d_z, h_T))

        h_before_NH = _one_step_before(y_NH, first_h_BH, batch_sizes)
        d_weight_x = torch.mm(x_NI.t(), d_z_N4C).to(whole)
        d_weight_h = torch.mm(h_before_NH.t(), d_z_N4C).to(whole)
        d_weight_p = None if p_T is None else torch.mm(m_NC.t(), d_p_NH).to(whole)
        d_x_NI = torch.mm(d_z_N4C, weight_x.t().to(dtype)).to(whole)
        weights = d_weight_x, d_weight_h, d_bias, d_weight_p
        return d_x_NI, *weights, d_h_BH, d_c_BC, None


def _steps(batch_sizes: Sequence[int], *rows: Tensor) -> Iterator[tuple[Any, ...]]:
    """Yield the number of rows of each step and its rows of each tensor."""
    sizes = list(batch_sizes)
    return zip(sizes, *(tensor.split(sizes) for tensor in rows), strict=True)


def _one_step_before(
    rows_N: Tensor, first_B: Tensor, batch_sizes: Sequence[int]
) -> Tensor:
    """Return the same sequences' rows of one step earlier, packed alike."""
    pieces, start = [first_B[: batch_sizes[0]]], 0
    for b, b_next in pairwise(batch_sizes):
        pieces.append(rows_N[start : start + b_next])
        start += b
    return torch.cat(pieces)
