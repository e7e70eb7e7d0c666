"""The operator of gpu_lstm.py: one LSTM layer of both directions.

Importing this file registers `torch.ops.spacy_elmo.bilstm`, which autograd and
FakeTensor know. gpu_steps.py has one step of it in plain PyTorch, and triton_steps.py
has the same step as kernels for CUDA.

Shapes: as in lstm.py, with both directions (2) first; I columns of the input. d_x is
the gradient of x. `low` tensors are in the dtype of matrix multiplications. All others
are in the dtype of the weights, so that no error adds up over time.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .gpu_steps import DEFINITION, Clip, Steps

Seven = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


class Layer(NamedTuple):
    """The arguments of a layer beside its input: the weights and the first states of
    both directions, and the settings."""

    weight_x: Tensor
    weight_h: Tensor
    bias: Tensor
    weight_p: Tensor
    h_0: Tensor
    c_0: Tensor
    batch_sizes: Sequence[int]
    cell_clip: Clip
    proj_clip: Clip
    dtype: torch.dtype


class Outputs(NamedTuple):
    """The results of a layer: y (2, N, H), last h (2, B, H) and c (2, B, C). For the
    backward pass: activated gates (2, N, 4C), cells and low_m = o tanh(c) (2, N, C),
    low_y (2, N, H)."""

    y: Tensor
    last_h: Tensor
    last_c: Tensor
    gates: Tensor
    cells: Tensor
    low_m: Tensor
    low_y: Tensor


def layer_forward(steps: Steps, x: Tensor, layer: Layer) -> Outputs:
    """Compute a layer, step by step.

    Args:
        steps: The functions of one step.
        x: Inputs of all steps, (2, N, I).
        layer: The other arguments.
    """
    dtype, cell_clip, proj_clip = layer.dtype, layer.cell_clip, layer.proj_clip
    N, C, H = x.shape[1], layer.c_0.shape[2], layer.h_0.shape[2]
    by_x = torch.bmm(x.to(dtype), layer.weight_x.to(dtype))
    gates = by_x.to(x.dtype) + layer.bias[:, None]
    low_h_weight, low_p_weight = layer.weight_h.to(dtype), layer.weight_p.to(dtype)
    y, low_y = x.new_empty(2, N, H), x.new_empty(2, N, H, dtype=dtype)
    cells, low_m = x.new_empty(2, N, C), x.new_empty(2, N, C, dtype=dtype)
    low_h, c = layer.h_0.to(dtype), layer.c_0
    last_h, last_c = [], []
    for now, before in _steps(layer.batch_sizes):
        b = now.stop - now.start
        if before is not None:
            ended = slice(before.start + b, before.stop)
            last_h.append(y[:, ended])
            last_c.append(cells[:, ended])
        r = torch.bmm(low_h[:, :b], low_h_weight)
        steps.cell(gates[:, now], r, c[:, :b], cell_clip, cells[:, now], low_m[:, now])
        steps.project(low_m[:, now], low_p_weight, proj_clip, y[:, now], low_y[:, now])
        low_h, c = low_y[:, now], cells[:, now]
    last_h.append(y[:, now])
    last_c.append(c)
    ends = torch.cat(last_h[::-1], dim=1), torch.cat(last_c[::-1], dim=1)
    return Outputs(y, *ends, gates, cells, low_m, low_y)


def layer_backward(
    steps: Steps, d_y: Tensor, d_h: Tensor, d_c: Tensor, x: Tensor, *rest: Any
) -> Seven:
    """Return the gradients of x, weight_x, weight_h, bias, weight_p, h_0 and c_0.

    Args:
        steps: The functions of one step.
        d_y: Gradient of the outputs, (2, N, H).
        d_h: Gradient of the last h, (2, B, H).
        d_c: Gradient of the last c, (2, B, C).
        x: Inputs of all steps, (2, N, I).
        rest: The fields of `Outputs` without the last states, then those of `Layer`.
    """
    (y, gates, cells, low_m, low_y), layer = rest[:5], Layer(*rest[5:])
    dtype, cell_clip, proj_clip = layer.dtype, layer.cell_clip, layer.proj_clip
    # Triton needs rows that lie one after another in memory.
    packed = torch.contiguous_format
    low_d_h = d_h.to(dtype, copy=True, memory_format=packed)
    d_c, d_y = d_c.clone(memory_format=packed), d_y.contiguous()
    low_d_z = torch.empty_like(gates, dtype=dtype)
    low_d_p = torch.empty_like(y, dtype=dtype)
    x_T, h_T, p_T = (
        weight.to(dtype).transpose(1, 2).contiguous()
        for weight in (layer.weight_x, layer.weight_h, layer.weight_p)
    )
    h_before = torch.empty_like(low_d_p)
    for now, before in reversed(list(_steps(layer.batch_sizes))):
        b = now.stop - now.start
        if before is None:
            h_before[:, now], c = layer.h_0[:, :b], layer.c_0[:, :b]
        else:
            rows = slice(before.start, before.start + b)
            h_before[:, now], c = low_y[:, rows], cells[:, rows]
        d_p, d_z = low_d_p[:, now], low_d_z[:, now]
        steps.project_backward(d_y[:, now], low_d_h[:, :b], y[:, now], proj_clip, d_p)
        d_m = torch.bmm(d_p, p_T)
        steps.cell_backward(
            d_m, gates[:, now], c, cells[:, now], cell_clip, d_c[:, :b], d_z
        )
        low_d_h[:, :b] = torch.bmm(d_z, h_T)
    of_weights = (
        torch.bmm(low_d.transpose(1, 2), low).transpose(1, 2).to(x.dtype)
        for low_d, low in (
            (low_d_z, x.to(dtype)), (low_d_z, h_before), (low_d_p, low_m)
        )
    )  # fmt: skip
    d_weight_x, d_weight_h, d_weight_p = of_weights
    d_x, d_bias = torch.bmm(low_d_z, x_T).to(x.dtype), low_d_z.sum(1, dtype=x.dtype)
    d_first = low_d_h.to(x.dtype), d_c
    return d_x, d_weight_x, d_weight_h, d_bias, d_weight_p, *d_first


def _steps(batch_sizes: Sequence[int]) -> Iterator[tuple[slice, slice | None]]:
    """Yield the packed rows of every step, and the rows of the step before it."""
    before, start = None, 0
    for b in batch_sizes:
        now = slice(start, start + b)
        yield now, before
        before, start = now, start + b


def _steps_for(x: Tensor) -> Steps:
    if x.device.type != "cuda":
        return DEFINITION
    from .triton_steps import TRITON  # without a GPU Triton may not be installed

    return TRITON


_FIELDS = (
    "Tensor weight_x, Tensor weight_h, Tensor bias, Tensor weight_p, Tensor h_0, "
    "Tensor c_0, SymInt[] batch_sizes, float? cell_clip, float? proj_clip, "
    f"ScalarType dtype) -> ({', '.join(['Tensor'] * 7)})"
)
_GIVEN = "Tensor x, Tensor y, Tensor gates, Tensor cells, Tensor low_m, Tensor low_y"


@torch.library.custom_op(
    "spacy_elmo::bilstm", mutates_args=(), schema=f"(Tensor x, {_FIELDS}"
)
def bilstm(x: Tensor, *fields: Any) -> Seven:
    """Compute `layer_forward` with the fields of a `Layer`."""
    with torch.cuda.device_of(x):  # Triton runs on the current device
        return layer_forward(_steps_for(x), x, Layer(*fields))


@bilstm.register_fake
def _(x: Tensor, *fields: Any) -> Seven:
    layer = Layer(*fields)
    N, C, H = x.shape[1], layer.c_0.shape[2], layer.h_0.shape[2]
    return Outputs(
        x.new_empty(2, N, H),
        torch.empty_like(layer.h_0),
        torch.empty_like(layer.c_0),
        x.new_empty(2, N, 4 * C),
        x.new_empty(2, N, C),
        x.new_empty(2, N, C, dtype=layer.dtype),
        x.new_empty(2, N, H, dtype=layer.dtype),
    )


@torch.library.custom_op(
    "spacy_elmo::bilstm_backward",
    mutates_args=(),
    schema=f"(Tensor d_y, Tensor d_h, Tensor d_c, {_GIVEN}, {_FIELDS}",
)
def bilstm_backward(
    d_y: Tensor, d_h: Tensor, d_c: Tensor, x: Tensor, *rest: Any
) -> Seven:
    """Compute `layer_backward`."""
    with torch.cuda.device_of(x):
        return layer_backward(_steps_for(x), d_y, d_h, d_c, x, *rest)


@bilstm_backward.register_fake
def _(*inputs: Any) -> Seven:
    x, like = inputs[3], (inputs[3], *inputs[9:15])
    new = [x.new_empty(tensor.shape) for tensor in like]
    return new[0], new[1], new[2], new[3], new[4], new[5], new[6]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)  # four of the outputs never get a gradient
    x, *fields = inputs
    y, _h, _c, *kept = output
    ctx.save_for_backward(x, y, *kept, *fields[:6])
    ctx.settings = fields[6:]


def _backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
    outputs = ctx.saved_tensors[1], *ctx.saved_tensors[-2:]
    given = (
        torch.zeros_like(y) if d is None else d for d, y in zip(gradients, outputs)
    )
    found = bilstm_backward(*given, *ctx.saved_tensors, *ctx.settings)
    return *found, None, None, None, None


bilstm.register_autograd(_backward, setup_context=_keep)
