"""The LSTM layer with an explicit backward pass, for training.

Autograd would add up the gradients of the weights step by step. Here each gradient is
one matrix multiplication over all steps. On a CPU pointwise operations run step by
step, while the rows of a step lie in the cache. For all steps at once they waited for
the memory, and took two thirds of a layer's time in bfloat16 (docs/kernels.md).

Shapes: as in lstm.py; I columns of the input. d_x is the gradient of the loss with
respect to x. y_of_x is the derivative of y with respect to x.
"""

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..config import BiLMConfig
from ..lstm import LstmLayer
from . import layer_by_layer
from .kernel import DispatchKey
from .layer_by_layer import gate_bias, last_rows, one_step_before, steps

sigmoid_backward = torch.ops.aten.sigmoid_backward
tanh_backward = torch.ops.aten.tanh_backward


def can_run(key: DispatchKey, config: BiLMConfig) -> bool:
    """Return True: all dispatch keys are supported."""
    return True


def run(
    layer: LstmLayer,
    dtype: torch.dtype,
    x_NI: Tensor,
    batch_sizes: Sequence[int],
    h_BH: Tensor,
    c_BC: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `layer.forward`. Matrices are multiplied in a dtype, and what the
    backward pass needs is stored in it. Cells are carried in their own dtype, since
    their errors would add up over a text."""
    config = layer.config
    bias = gate_bias(layer.bias, config.forget_bias)
    settings = batch_sizes, config.cell_clip, config.proj_clip, dtype
    return _LstmFunction.apply(
        x_NI, layer.weight_x, layer.weight_h, bias, layer.weight_p, h_BH, c_BC, settings
    )


prepare = partial(layer_by_layer.prepare, lambda layer, key: key.matmul_dtype)
read = partial(layer_by_layer.read, run)


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
        # The products of the inputs, for all gates of all steps at once.
        gates_N4C = torch.mm(x_NI, weight_x.to(dtype))
        cells_NC, tanh_c_NC, m_NC = x_NI.new_empty(3, N, C)
        y_NH = m_NC if low_p is None else x_NI.new_empty(N, h_BH.shape[1])
        for b, z, cell, tanh_c, m, y in steps(
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
        C, whole, on_cpu = d_c_BC.shape[1], d_c_BC.dtype, d_c_BC.device.type == "cpu"
        d_h_BH, d_c_BC, d_bias = d_h_BH.clone(), d_c_BC.clone(), d_c_BC.new_zeros(4 * C)
        c_before_NC = one_step_before(cells_NC, first_c_BC, batch_sizes)
        h_T = weight_h.t().to(dtype).contiguous()
        p_T = None if weight_p is None else weight_p.t().to(dtype).contiguous()
        d_z_N4C, d_p_NH = torch.empty_like(gates_N4C), torch.empty_like(y_NH)
        of_gates = gates_N4C, cells_NC, c_before_NC, tanh_c_NC
        of_steps = y_NH, d_y_NH, d_z_N4C, d_p_NH
        sizes, ends = list(batch_sizes), list(accumulate(batch_sizes, initial=0))
        # A CPU takes one step at a time; a GPU takes all at once, in fewer operators.
        n_steps = 1 if on_cpu else len(sizes)
        for first in reversed(range(0, len(sizes), n_steps)):
            some = sizes[first : first + n_steps]
            block = slice(ends[first], ends[first + len(some)])
            derivatives = _derivatives(cell_clip, *(part[block] for part in of_gates))
            rows = *derivatives, *(part[block] for part in of_steps)
            for b, o_of_m, c_of_m, ifg_of_c, c_of_c, y, d_y, d_z, d_p in reversed(
                list(steps(some, *rows))
            ):
                d_h, d_c = d_h_BH[:b], d_c_BC[:b]
                torch.add(d_y, d_h, out=d_p)
                if proj_clip is not None and weight_p is not None:
                    d_p.mul_(y.abs() < proj_clip)
                d_m = d_p if p_T is None else torch.mm(d_p, p_T)
                d_c += d_m * c_of_m
                d_o, d_ifg = d_z.split([C, 3 * C], dim=1)
                torch.mul(d_m, o_of_m, out=d_o)
                torch.mul(
                    d_c.to(dtype)[:, None],
                    ifg_of_c.unflatten(1, (3, C)),
                    out=d_ifg.unflatten(1, (3, C)),
                )
                d_c *= c_of_c.to(whole)
                d_h.copy_(torch.mm(d_z, h_T))
            d_bias += d_z_N4C[block].sum(0)

        h_before_NH = one_step_before(y_NH, first_h_BH, batch_sizes)
        # oneDNN takes a quarter longer if it has to transpose (docs/kernels.md).
        x_T, h_before_T = x_NI.t().contiguous(), h_before_NH.t().contiguous()
        d_weight_x = torch.mm(x_T, d_z_N4C).to(whole)
        d_weight_h = torch.mm(h_before_T, d_z_N4C).to(whole)
        d_weight_p = None if p_T is None else torch.mm(m_NC.t(), d_p_NH).to(whole)
        d_x_NI = torch.mm(d_z_N4C, weight_x.t().to(dtype)).to(whole)
        weights = d_weight_x, d_weight_h, d_bias, d_weight_p
        return d_x_NI, *weights, d_h_BH, d_c_BC, None


def _derivatives(
    cell_clip: float | None,
    gates_N4C: Tensor,
    cells_NC: Tensor,
    before_NC: Tensor,
    tanh_c_NC: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the pointwise derivatives of one or more steps.

    Args:
        cell_clip: Bound of the cells, None for none.
        gates_N4C: Activated gates o, i, f, g.
        cells_NC: Cells c after the steps.
        before_NC: Cells before the steps.
        tanh_c_NC: tanh(c).

    Returns:
        The derivatives of m = o tanh(c) with respect to o and to c, (N, C) each; of c
        with respect to i, f and g, (N, 3C); of c with respect to the cell before,
        (N, C). Those of gates are taken before the nonlinearity.
    """
    C = cells_NC.shape[1]
    o, i, f, g = gates_N4C.split(C, dim=1)
    ifg_of_c = gates_N4C.new_empty(len(gates_N4C), 3 * C)
    i_of_c, f_of_c, g_of_c = ifg_of_c.split(C, dim=1)
    sigmoid_backward.grad_input(g, i, grad_input=i_of_c)
    sigmoid_backward.grad_input(before_NC, f, grad_input=f_of_c)
    tanh_backward.grad_input(i, g, grad_input=g_of_c)
    if cell_clip is not None:  # a clipped cell passes no gradient
        passes_NC = (cells_NC.abs() < cell_clip).to(cells_NC.dtype)
        ifg_of_c.unflatten(1, (3, C)).mul_(passes_NC[:, None])
        f = f * passes_NC
    o_of_m, c_of_m = sigmoid_backward(tanh_c_NC, o), tanh_backward(o, tanh_c_NC)
    return o_of_m, c_of_m, ifg_of_c, f
