"""The LSTM layer with an explicit backward pass.

Autograd would add up the weights' gradients step by step; here each is one matrix
multiplication over all steps, and all pointwise derivatives are formed before the loop.

Shapes: as in lstm.py; I columns of the input. A gradient of x is named d_x.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..lstm import LstmLayer
from .cpu_lstm import gate_bias


def run(
    layer: LstmLayer,
    x_NI: Tensor,
    batch_sizes: Sequence[int],
    h_BH: Tensor,
    c_BC: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what the layer returns.

    Both sides of matrix multiplications are rounded to dtype. The state is not: its
    errors would add up over a text.
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
        C = c_BC.shape[1]
        first = h_BH, c_BC
        h_BH, c_BC = h_BH.clone(), c_BC.clone()
        # The input half of every gate of every step at once.
        gates_N4C = _mm(x_NI, weight_x, dtype).add_(bias)
        low_h = weight_h.to(dtype)
        low_p = None if weight_p is None else weight_p.to(dtype)
        y_NH = x_NI.new_empty(len(x_NI), h_BH.shape[1])
        cells_NC = x_NI.new_empty(len(x_NI), C)
        for z, y, cell in zip(
            *(rows.split(list(batch_sizes)) for rows in (gates_N4C, y_NH, cells_NC))
        ):
            h, c = h_BH[: len(z)], c_BC[: len(z)]
            _add_mm(z, h, low_h)
            z[:, : 3 * C].sigmoid_()
            z[:, 3 * C :].tanh_()
            o, i, f, g = z.split(C, dim=1)
            c.mul_(f).addcmul_(i, g)
            if cell_clip is not None:
                c.clamp_(-cell_clip, cell_clip)
            m = torch.tanh(c).mul_(o)
            if low_p is None:
                y.copy_(m)
            else:
                y.copy_(_mm(m, low_p, dtype))
                if proj_clip is not None:
                    y.clamp_(-proj_clip, proj_clip)
            h.copy_(y)
            cell.copy_(c)
        ctx.save_for_backward(
            x_NI, weight_x, weight_h, weight_p, *first, gates_N4C, cells_NC, y_NH
        )
        return y_NH, h_BH, c_BC

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y_NH: Tensor, d_h_BH: Tensor, d_c_BC: Tensor) -> Any:
        x_NI, weight_x, weight_h, weight_p, h_0BH, c_0BC, gates_N4C, cells_NC, y_NH = (
            ctx.saved_tensors
        )
        batch_sizes, cell_clip, proj_clip, dtype = ctx.settings
        d_h_BH, d_c_BC = d_h_BH.clone(), d_c_BC.clone()
        m_NC, o_of_m, ifg_of_c, c_of_m, c_of_c = _derivatives(
            gates_N4C,
            cells_NC,
            _one_step_before(cells_NC, c_0BC, batch_sizes),
            cell_clip,
        )
        C = cells_NC.shape[1]
        passes_NH = None
        if proj_clip is not None and weight_p is not None:
            passes_NH = (y_NH.abs() < proj_clip).to(y_NH.dtype)
        d_z_N4C, d_p_NH = torch.empty_like(gates_N4C), torch.empty_like(y_NH)
        h_T = weight_h.t().to(dtype).contiguous()
        p_T = None if weight_p is None else weight_p.t().to(dtype).contiguous()
        start = len(x_NI)
        for b in reversed(batch_sizes):
            step = slice(start - b, start)
            start -= b
            d_h, d_c, d_z = d_h_BH[:b], d_c_BC[:b], d_z_N4C[step]
            d_p = torch.add(d_y_NH[step], d_h, out=d_p_NH[step])
            if passes_NH is not None:
                d_p.mul_(passes_NH[step])
            d_m = d_p if p_T is None else _mm(d_p, p_T, dtype)
            torch.mul(d_m, o_of_m[step], out=d_z[:, :C])
            d_c.addcmul_(d_m, c_of_m[step])
            d_z[:, C:].unflatten(1, (3, C)).copy_(
                d_c[:, None] * ifg_of_c[step].unflatten(1, (3, C))
            )
            d_c.mul_(c_of_c[step])
            d_h.copy_(_mm(d_z, h_T, dtype))

        # (d_z^T x)^T: oneDNN takes up to twice the time for x^T d_z.
        h_before_NH = _one_step_before(y_NH, h_0BH, batch_sizes)
        d_weight_x = _mm(d_z_N4C.t(), x_NI, dtype).t()
        d_weight_h = _mm(d_z_N4C.t(), h_before_NH, dtype).t()
        d_weight_p = None
        if weight_p is not None:
            d_weight_p = _mm(d_p_NH.t(), m_NC, dtype).t()
        d_x_NI = _mm(d_z_N4C, weight_x.t(), dtype)
        weights = d_weight_x, d_weight_h, d_z_N4C.sum(0), d_weight_p
        return d_x_NI, *weights, d_h_BH, d_c_BC, None


def _derivatives(
    gates_N4C: Tensor, cells_NC: Tensor, before_NC: Tensor, cell_clip: float | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return m = o tanh(c) of all steps, and pointwise derivatives, of gates before
    their nonlinearity: of o by m, of i, f and g by c (N, 3C), of c by m, and of the c
    before by c."""
    C = cells_NC.shape[1]
    o, i, f, g = gates_N4C.split(C, dim=1)
    tanh_c_NC = torch.tanh(cells_NC)
    parts = g * i * (1 - i), before_NC * f * (1 - f), i * (1 - g * g)
    ifg_of_c, c_of_c = torch.cat(parts, dim=1), f
    if cell_clip is not None:  # a clipped cell passes nothing to what it was made of
        passes_NC = (cells_NC.abs() < cell_clip).to(cells_NC.dtype)
        ifg_of_c = (ifg_of_c.view(-1, 3, C) * passes_NC[:, None]).view(-1, 3 * C)
        c_of_c = f * passes_NC
    o_of_m, c_of_m = tanh_c_NC * o * (1 - o), o * (1 - tanh_c_NC * tanh_c_NC)
    return o * tanh_c_NC, o_of_m, ifg_of_c, c_of_m, c_of_c


def _mm(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a b in a's dtype, of both rounded to another."""
    return torch.mm(a.to(dtype), b.to(dtype)).to(a.dtype)


def _add_mm(z: Tensor, a: Tensor, b: Tensor) -> None:
    """Add a b to z, in place, with a rounded as b is."""
    if a.dtype == b.dtype:
        z.addmm_(a, b)
    else:
        z.add_(torch.mm(a.to(b.dtype), b))


def _one_step_before(
    rows_N: Tensor, first_B: Tensor, batch_sizes: Sequence[int]
) -> Tensor:
    """Return the same sequences' rows of one step earlier, packed alike."""
    pieces, start = [first_B[: batch_sizes[0]]], 0
    for b, b_next in pairwise(batch_sizes):
        pieces.append(rows_N[start : start + b_next])
        start += b
    return torch.cat(pieces)
