"""The LSTM layers of both directions at once, for GPUs.

A step is a recurrent matrix multiplication by the vendor's library, the cell, and the
projection. Each of the three is one launch for both directions. gpu_steps.py has the
functions of a step in plain PyTorch, and triton_steps.py has them as kernels for CUDA.

Shapes: as in lstm.py, with both directions (2) first; I columns of the input. d_x is
the gradient of x. `low` tensors are in the dtype of matrix multiplications. All others
are in the dtype of the weights, so that no error adds up over time.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding

from ..config import BiLMConfig
from ..lstm import BiLMState, LstmLayer, LstmState
from ..model import BidirectionalLM
from . import gpu_steps
from .kernel import DispatchKey, Inputs, Outputs
from .layer_by_layer import gate_bias, last_rows, one_step_before, read_stack, steps


def can_run(key: DispatchKey, config: BiLMConfig) -> bool:
    """Return whether layers have a projection: a step ends with it."""
    return config.lstm_projection


def prepare(model: BidirectionalLM, key: DispatchKey) -> torch.dtype:
    """Return the dtype of matrix multiplications. `run` rounds the weights to it."""
    return key.matmul_dtype


def read(model: BidirectionalLM, dtype: torch.dtype, inputs: Inputs) -> Outputs:
    """Compute `model.read(*inputs)`, both directions at once."""
    x_VH, forward_N, backward_N, batch_sizes, state, dropout = inputs
    x_2NI = embedding(torch.stack([forward_N, backward_N]), x_VH)
    h_L2BH, c_L2BC = (torch.stack(both, dim=1) for both in zip(*state))
    outputs, after = read_stack(
        partial(run, dtype=dtype),
        model.forward_lstm,
        list(model.backward_lstm.layers),
        x_2NI,
        LstmState(h_L2BH, c_L2BC),
        batch_sizes,
        dropout,
    )
    states = (
        LstmState(*(part[:, direction].contiguous() for part in after))
        for direction in range(2)
    )
    return [y[0] for y in outputs], [y[1] for y in outputs], BiLMState(*states)


def run(
    forward: LstmLayer,
    backward: LstmLayer,
    x_2NI: Tensor,
    batch_sizes: Sequence[int],
    h_2BH: Tensor,
    c_2BC: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return both layers' outputs (2, N, H), and last h (2, B, H) and c (2, B, C).

    Args:
        forward: The layer of the forward direction.
        backward: The layer of the backward direction.
        x_2NI: Inputs of all steps.
        batch_sizes: Number of sequences that are longer than t, for each step t.
        h_2BH: Outputs of the step before the first.
        c_2BC: Cells of the step before the first.
        dtype: Dtype of matrix multiplications.
    """
    config, both = forward.config, (forward, backward)
    biases = [gate_bias(layer.bias, config.forget_bias) for layer in both]
    projections: list[Any] = [layer.weight_p for layer in both]
    functions: Any = gpu_steps
    if x_2NI.device.type == "cuda":
        from . import triton_steps as functions  # Triton comes with torch for CUDA
    return BiLstmLayer.apply(
        Settings(functions, batch_sizes, config.cell_clip, config.proj_clip, dtype),
        x_2NI,
        torch.stack([forward.weight_x, backward.weight_x]),
        torch.stack([forward.weight_h, backward.weight_h]),
        torch.stack(biases),
        torch.stack(projections),
        h_2BH,
        c_2BC,
    )


class Settings(NamedTuple):
    """How a layer is computed. step: gpu_steps.py or triton_steps.py."""

    step: Any
    batch_sizes: Sequence[int]
    cell_clip: float | None
    proj_clip: float | None
    dtype: torch.dtype


class BiLstmLayer(torch.autograd.Function):
    """One layer of both directions over all steps."""

    @staticmethod
    def forward(
        ctx: Any,
        settings: Settings,
        x: Tensor,
        weight_x: Tensor,
        weight_h: Tensor,
        bias: Tensor,
        weight_p: Tensor,
        h_0: Tensor,
        c_0: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the results of `run`. Keep what the backward pass needs."""
        step, batch_sizes, cell_clip, proj_clip, dtype = ctx.settings = settings
        N, C, H = x.shape[1], c_0.shape[2], h_0.shape[2]
        gates = torch.bmm(x.to(dtype), weight_x.to(dtype)).to(x.dtype) + bias[:, None]
        low_weight_h, low_weight_p = weight_h.to(dtype), weight_p.to(dtype)
        y, low_y = x.new_empty(2, N, H), x.new_empty(2, N, H, dtype=dtype)
        cells, low_m = x.new_empty(2, N, C), x.new_empty(2, N, C, dtype=dtype)
        low_h, before = h_0.to(dtype), c_0
        with torch.cuda.device_of(x):  # Triton runs on the current device
            for b, z, c, m, h, low in steps(
                batch_sizes, gates, cells, low_m, y, low_y, dim=1
            ):
                r = torch.bmm(low_h[:, :b], low_weight_h)
                step.cell(cell_clip, z, r, before[:, :b], c, m)
                step.project(proj_clip, m, low_weight_p, h, low)
                low_h, before = low, c
        ctx.save_for_backward(
            *(x, weight_x, weight_h, weight_p, h_0, c_0),
            *(gates, cells, low_m, y, low_y),
        )
        return y, last_rows(y, batch_sizes, 1), last_rows(cells, batch_sizes, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor, d_h: Tensor, d_c: Tensor) -> Any:
        """Return the gradients of the tensors that `forward` takes."""
        x, weight_x, weight_h, weight_p, h_0, c_0, *rest = ctx.saved_tensors
        gates, cells, low_m, y, low_y = rest
        step, batch_sizes, cell_clip, proj_clip, dtype = ctx.settings
        # Triton needs rows that lie one after another in memory.
        packed = torch.contiguous_format
        low_d_h = d_h.to(dtype, copy=True, memory_format=packed)
        d_c, d_y = d_c.clone(memory_format=packed), d_y.contiguous()
        low_d_z = torch.empty_like(gates, dtype=dtype)
        low_d_p = torch.empty_like(low_y)
        x_T, h_T, p_T = (
            weight.to(dtype).transpose(1, 2).contiguous()
            for weight in (weight_x, weight_h, weight_p)
        )
        before = [c_0, *cells.split(list(batch_sizes), dim=1)]
        rows = steps(batch_sizes, gates, cells, y, d_y, low_d_p, low_d_z, dim=1)
        with torch.cuda.device_of(x):
            for c_before, (b, z, c, h, d_out, d_p, d_z) in reversed(
                list(zip(before, rows))
            ):
                step.project_backward(proj_clip, d_out, low_d_h[:, :b], h, d_p)
                d_m, d_cell = torch.bmm(d_p, p_T), d_c[:, :b]
                step.cell_backward(cell_clip, d_m, z, c_before[:, :b], c, d_z, d_cell)
                low_d_h[:, :b] = torch.bmm(d_z, h_T)
        h_before = one_step_before(low_y, h_0.to(dtype), batch_sizes, 1)
        d_weight_x, d_weight_h, d_weight_p = (
            torch.bmm(low_d.transpose(1, 2), low).transpose(1, 2).to(x.dtype)
            for low_d, low in (
                (low_d_z, x.to(dtype)),
                (low_d_z, h_before),
                (low_d_p, low_m),
            )
        )
        d_x, d_bias = torch.bmm(low_d_z, x_T).to(x.dtype), low_d_z.sum(1, dtype=x.dtype)
        weights = d_weight_x, d_weight_h, d_bias, d_weight_p
        return None, d_x, *weights, low_d_h.to(x.dtype), d_c
