"""The LSTM layer with its gradient written out.

Written out because autograd would add up the weights' gradients step by step; here they
are single products over all steps, and all pointwise derivatives are formed before the
loop. tests/bilm/test_lstm.py holds it against autograd.

Shapes: as in lstm.py.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class TrainedLayer(torch.autograd.Function):
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
        batch_sizes: Sequence[int],
        cell_clip: float | None,
        proj_clip: float | None,
        factors: torch.dtype,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """factors: what the factors of products are rounded to."""
        C = c_BC.shape[1]
        keep = any(ctx.needs_input_grad)
        h0_BH, c0_BC = h_BH, c_BC
        h_BH, c_BC = h_BH.clone(), c_BC.clone()
        # The input half of every gate of every step in one product.
        gates_N4C = _product(x_NI, weight_x, factors).add_(bias)
        by_h = weight_h.to(factors)
        by_p = None if weight_p is None else weight_p.to(factors)
        y_NH = x_NI.new_empty(len(x_NI), h_BH.shape[1])
        cells_NC = x_NI.new_empty(len(x_NI), C) if keep else None
        start = 0
        for b in batch_sizes:
            step = slice(start, start + b)
            start += b
            z, h, c, y = gates_N4C[step], h_BH[:b], c_BC[:b], y_NH[step]
            _add_product(z, h, by_h)
            z[:, : 3 * C].sigmoid_()
            z[:, 3 * C :].tanh_()
            o, i, f, g = z.split(C, dim=1)
            c.mul_(f).addcmul_(i, g)
            if cell_clip is not None:
                c.clamp_(-cell_clip, cell_clip)
            m = torch.tanh(c).mul_(o)
            if by_p is None:
                y.copy_(m)
            else:
                y.copy_(_product(m, by_p, factors))
                if proj_clip is not None:
                    y.clamp_(-proj_clip, proj_clip)
            h.copy_(y)
            if cells_NC is not None:
                cells_NC[step] = c
        if cells_NC is not None:
            ctx.save_for_backward(
                x_NI,
                weight_x,
                weight_h,
                weight_p,
                h0_BH,
                c0_BC,
                gates_N4C,
                cells_NC,
                y_NH,
            )
            ctx.batch_sizes, ctx.clips = batch_sizes, (cell_clip, proj_clip)
            ctx.factors = factors
        return y_NH, h_BH, c_BC

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_NH: Tensor, dh_BH: Tensor, dc_BC: Tensor) -> Any:
        x_NI, weight_x, weight_h, weight_p, h0_BH, c0_BC, gates_N4C, cells_NC, y_NH = (
            ctx.saved_tensors
        )
        (cell_clip, proj_clip), factors = ctx.clips, ctx.factors
        C = cells_NC.shape[1]
        dh_BH, dc_BC = dh_BH.clone(), dc_BC.clone()
        o, i, f, g = gates_N4C.split(C, dim=1)
        h_before_NH = _one_step_before(y_NH, h0_BH, ctx.batch_sizes)
        c_before_NC = _one_step_before(cells_NC, c0_BC, ctx.batch_sizes)
        tanh_c_NC = torch.tanh(cells_NC)
        # Derivatives of the gates before their activation (z) by m = o tanh(c) and by
        # c, and of c by m and by the c of the step before.
        zo_by_m = tanh_c_NC * o * (1 - o)
        z_by_c = torch.cat(
            [g * i * (1 - i), c_before_NC * f * (1 - f), i * (1 - g * g)], dim=1
        )
        c_by_m = o * (1 - tanh_c_NC * tanh_c_NC)
        c_by_c = f
        if (
            cell_clip is not None
        ):  # a clipped cell passes nothing to what it was made of
            free_NC = (cells_NC.abs() < cell_clip).to(cells_NC.dtype)
            z_by_c = (z_by_c.view(-1, 3, C) * free_NC[:, None]).view(-1, 3 * C)
            c_by_c = f * free_NC
        free_NH = None
        if proj_clip is not None and weight_p is not None:
            free_NH = (y_NH.abs() < proj_clip).to(y_NH.dtype)

        dz_N4C = torch.empty_like(gates_N4C)
        dproj_NH = torch.empty_like(y_NH)
        by_hT = weight_h.t().to(factors).contiguous()
        by_pT = None if weight_p is None else weight_p.t().to(factors).contiguous()
        start = len(x_NI)
        for b in reversed(ctx.batch_sizes):
            step = slice(start - b, start)
            start -= b
            dh, dc, dz = dh_BH[:b], dc_BC[:b], dz_N4C[step]
            dproj = torch.add(dy_NH[step], dh, out=dproj_NH[step])
            if free_NH is not None:
                dproj.mul_(free_NH[step])
            dm = dproj if by_pT is None else _product(dproj, by_pT, factors)
            torch.mul(dm, zo_by_m[step], out=dz[:, :C])
            dc.addcmul_(dm, c_by_m[step])
            dz[:, C:].unflatten(1, (3, C)).copy_(
                dc[:, None] * z_by_c[step].unflatten(1, (3, C))
            )
            dc.mul_(c_by_c[step])
            dh.copy_(_product(dz, by_hT, factors))

        # (dz^T x)^T: for x^T dz oneDNN took up to twice the time.
        dweight_x = _product(dz_N4C.t(), x_NI, factors).t()
        dweight_h = _product(dz_N4C.t(), h_before_NH, factors).t()
        dweight_p = None
        if weight_p is not None:
            dweight_p = _product(dproj_NH.t(), o * tanh_c_NC, factors).t()
        return (
            _product(dz_N4C, weight_x.t(), factors),
            dweight_x,
            dweight_h,
            dz_N4C.sum(0),
            dweight_p,
            dh_BH,
            dc_BC,
            None,
            None,
            None,
            None,
        )


def _product(a: Tensor, b: Tensor, factors: torch.dtype) -> Tensor:
    """a b, of a's precision whatever that of the factors."""
    return torch.mm(a.to(factors), b.to(factors)).to(a.dtype)


def _add_product(z: Tensor, a: Tensor, b: Tensor) -> None:
    """z += a b, with a rounded as b is."""
    if a.dtype == b.dtype:
        z.addmm_(a, b)
    else:
        z.add_(torch.mm(a.to(b.dtype), b))


def _one_step_before(
    rows_N: Tensor, first_B: Tensor, batch_sizes: Sequence[int]
) -> Tensor:
    """Packed rows -> the same sequences' rows one step earlier, packed alike."""
    pieces, start = [first_B[: batch_sizes[0]]], 0
    for b, b_next in pairwise(batch_sizes):
        pieces.append(rows_N[start : start + b_next])
        start += b
    return torch.cat(pieces)
