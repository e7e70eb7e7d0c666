"""The steps of gpu_steps.py as Triton kernels, for both directions in one launch.

Arguments of a kernel are addresses of tensors (2, B, columns) with the names and shapes
of gpu_steps.py, then the strides between the two directions, named as the tensor with
`_2`, then sizes. The rows of a step lie one after another in memory. CLIP says whether
there is a clip. Arithmetic is in float32, for any dtype of the tensors.
"""

from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .gpu_steps import Clip

BLOCK = 256  # columns of a row that one program of a pointwise kernel computes
# Rows, columns and terms of the sum of one tile of the projection (docs/kernels.md).
TILE_B, TILE_H, TILE_C = 32, 64, 64


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _sum(a, b, inside):
    return tl.load(a, inside).to(tl.float32) + tl.load(b, inside).to(tl.float32)


@triton.jit
def cell_kernel(
    gates, r, before, c, low_m, gates_2, r_2, before_2, c_2, m_2, B, C, clip,
    CLIP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write c, o tanh(c) and the activated gates, for a block of columns of one row."""
    direction = (tl.program_id(0) // B).to(tl.int64)
    row = tl.program_id(0) % B
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < C
    z = gates + direction * gates_2 + row * 4 * C + column
    r += direction * r_2 + row * 4 * C + column
    o = tl.sigmoid(_sum(z, r, inside))
    i = tl.sigmoid(_sum(z + C, r + C, inside))
    f = tl.sigmoid(_sum(z + 2 * C, r + 2 * C, inside))
    g = _tanh(_sum(z + 3 * C, r + 3 * C, inside))
    new = i * g + f * tl.load(before + direction * before_2 + row * C + column, inside)
    if CLIP:
        new = tl.clamp(new, -clip, clip, tl.PropagateNan.ALL)
    tl.store(z, o, inside)
    tl.store(z + C, i, inside)
    tl.store(z + 2 * C, f, inside)
    tl.store(z + 3 * C, g, inside)
    tl.store(c + direction * c_2 + row * C + column, new, inside)
    tl.store(low_m + direction * m_2 + row * C + column, o * _tanh(new), inside)


@triton.jit
def cell_backward_kernel(
    d_m, gates, before, c, low_d_z, d_c, m_2, gates_2, before_2, c_2, z_2, d_c_2, B, C,
    clip, CLIP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the gradient of the gates, and replace the gradient of the cell by that of
    the cell before, for a block of columns of one row."""
    direction = (tl.program_id(0) // B).to(tl.int64)
    row = tl.program_id(0) % B
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < C
    gates += direction * gates_2 + row * 4 * C + column
    o = tl.load(gates, inside)
    i = tl.load(gates + C, inside)
    f = tl.load(gates + 2 * C, inside)
    g = tl.load(gates + 3 * C, inside)
    cell = tl.load(c + direction * c_2 + row * C + column, inside)
    was = tl.load(before + direction * before_2 + row * C + column, inside)
    of_m = tl.load(d_m + direction * m_2 + row * C + column, inside).to(tl.float32)
    d_c += direction * d_c_2 + row * C + column
    t = _tanh(cell)
    of_c = tl.load(d_c, inside) + of_m * o * (1 - t * t)
    if CLIP:
        of_c = tl.where(tl.abs(cell) < clip, of_c, 0.0)
    d_z = low_d_z + direction * z_2 + row * 4 * C + column
    tl.store(d_z, of_m * t * o * (1 - o), inside)
    tl.store(d_z + C, of_c * g * i * (1 - i), inside)
    tl.store(d_z + 2 * C, of_c * was * f * (1 - f), inside)
    tl.store(d_z + 3 * C, of_c * i * (1 - g * g), inside)
    tl.store(d_c, of_c * f, inside)


@triton.jit
def project_kernel(
    m, w, y, low_y, m_2, y_2, low_y_2, B, C, H, clip,
    CLIP: tl.constexpr, IEEE: tl.constexpr,
    TILE_B: tl.constexpr, TILE_H: tl.constexpr, TILE_C: tl.constexpr,
):  # fmt: skip
    """Write a tile of m W_p, clipped, in two dtypes."""
    direction = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * TILE_B + tl.arange(0, TILE_B)
    column = tl.program_id(1) * TILE_H + tl.arange(0, TILE_H)
    term = tl.arange(0, TILE_C)
    m += direction * m_2 + row[:, None] * C
    w += direction * C * H + column[None, :]
    total = tl.zeros((TILE_B, TILE_H), tl.float32)
    for start in range(0, C, TILE_C):
        k = start + term
        a = tl.load(m + k[None, :], (row[:, None] < B) & (k[None, :] < C), 0.0)
        b = tl.load(w + k[:, None] * H, (k[:, None] < C) & (column[None, :] < H), 0.0)
        if IEEE:
            total = tl.dot(a, b, total, input_precision="ieee")
        else:
            total = tl.dot(a, b, total)
    if CLIP:
        total = tl.clamp(total, -clip, clip, tl.PropagateNan.ALL)
    inside = (row[:, None] < B) & (column[None, :] < H)
    place = row[:, None] * H + column[None, :]
    tl.store(y + direction * y_2 + place, total, inside)
    tl.store(low_y + direction * low_y_2 + place, total, inside)


@triton.jit
def project_backward_kernel(
    d_y, d_h, y, low_d_p, d_y_2, d_h_2, y_2, d_p_2, B, H, clip,
    CLIP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the gradient of m W_p, for a block of columns of one row."""
    direction = (tl.program_id(0) // B).to(tl.int64)
    row = tl.program_id(0) % B
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < H
    place = row * H + column
    total = tl.load(d_y + direction * d_y_2 + place, inside)
    total += tl.load(d_h + direction * d_h_2 + place, inside).to(tl.float32)
    if CLIP:
        held = tl.abs(tl.load(y + direction * y_2 + place, inside)) >= clip
        total = tl.where(held, 0.0, total)
    tl.store(low_d_p + direction * d_p_2 + place, total, inside)


def project(clip: Clip, low_m: Tensor, low_w: Tensor, y: Tensor, low_y: Tensor) -> None:
    """Compute `gpu_steps.project` on a GPU."""
    _, B, C = low_m.shape
    H = y.shape[2]
    # TF32 is used where torch uses it in its own multiplications.
    tf32 = torch.backends.cuda.matmul.fp32_precision == "tf32"
    ieee = low_m.dtype == torch.float32 and not tf32
    project_kernel[triton.cdiv(B, TILE_B), triton.cdiv(H, TILE_H), 2](
        low_m, low_w, y, low_y, *_strides(low_m, y, low_y), B, C, H, clip or 0.0,
        clip is not None, ieee, TILE_B, TILE_H, TILE_C,
    )  # fmt: skip


def _pointwise(kernel: Any, clip: Clip, *tensors: Tensor) -> None:
    """Run a pointwise kernel on tensors, of which the last is (2, B, C)."""
    _, B, C = tensors[-1].shape
    kernel[2 * B, triton.cdiv(C, BLOCK)](
        *tensors, *_strides(*tensors), B, C, clip or 0.0, clip is not None, BLOCK
    )


def _strides(*tensors: Tensor) -> list[int]:
    return [tensor.stride(0) for tensor in tensors]


# The functions of gpu_steps.py on a GPU.
cell = partial(_pointwise, cell_kernel)
cell_backward = partial(_pointwise, cell_backward_kernel)
project_backward = partial(_pointwise, project_backward_kernel)
