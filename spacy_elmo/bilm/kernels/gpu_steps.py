"""The functions of one step of gpu_lstm.py in plain PyTorch.

Shapes: as in gpu_lstm.py; all tensors are (2, B, columns).
"""

import torch
from torch import Tensor

Clip = float | None


def cell(
    clip: Clip, gates: Tensor, r: Tensor, before: Tensor, c: Tensor, low_m: Tensor
) -> None:
    """Write the cell c and m = o tanh(c); activate the gates in place.

    Args:
        clip: Bound of the cells, None for none.
        gates: Products of the input and the bias; activated gates afterwards.
        r: Products of the recurrent state.
        before: Cells before the step.
        c: Cells, written.
        low_m: o tanh(c), written.
    """
    gates += r
    C = c.shape[-1]
    gates[..., : 3 * C].sigmoid_()
    gates[..., 3 * C :].tanh_()
    o, i, f, g = gates.split(C, dim=-1)
    c.copy_(_clip(f * before + i * g, clip))
    low_m.copy_(o * c.tanh())


def project(clip: Clip, low_m: Tensor, low_w: Tensor, y: Tensor, low_y: Tensor) -> None:
    """Write y = m W_p, clipped, in two dtypes.

    Args:
        clip: Bound of y, None for none.
        low_m: o tanh(c).
        low_w: W_p.
        y: Outputs, written.
        low_y: The same, written.
    """
    y.copy_(_clip(torch.bmm(low_m, low_w).to(y.dtype), clip))
    low_y.copy_(y)


def project_backward(
    clip: Clip, d_y: Tensor, low_d_h: Tensor, y: Tensor, low_d_p: Tensor
) -> None:
    """Write the gradient of m W_p.

    Args:
        clip: Bound of y, None for none.
        d_y: Gradient of the outputs.
        low_d_h: Gradient of the same from the next step.
        y: Outputs.
        low_d_p: The gradient, written.
    """
    low_d_p.copy_((d_y + low_d_h) * _passes(y, clip))


def cell_backward(
    clip: Clip,
    low_d_m: Tensor,
    gates: Tensor,
    before: Tensor,
    c: Tensor,
    low_d_z: Tensor,
    d_c: Tensor,
) -> None:
    """Write the gradient of the gates; move d_c from the cell to the one before.

    Args:
        clip: Bound of the cells, None for none.
        low_d_m: Gradient of m.
        gates: Activated gates.
        before: Cells before the step.
        c: Cells after the step.
        low_d_z: Gradient of the gates before their nonlinearity, written.
        d_c: Gradient of the cells; afterwards of the cells before the step.
    """
    o, i, f, g = gates.split(c.shape[-1], dim=-1)
    t, d_m = c.tanh(), low_d_m.to(c.dtype)
    d_c += d_m * o * (1 - t * t)
    d_c *= _passes(c, clip)
    d_z = (
        d_m * t * o * (1 - o),
        d_c * g * i * (1 - i),
        d_c * before * f * (1 - f),
        d_c * i * (1 - g * g),
    )
    low_d_z.copy_(torch.cat(d_z, dim=-1))
    d_c *= f


def _clip(x: Tensor, limit: Clip) -> Tensor:
    return x if limit is None else x.clamp(-limit, limit)


def _passes(clipped: Tensor, limit: Clip) -> Tensor | float:
    """Return 1 where a clip passes the gradient, 0 where it changed the value."""
    return 1.0 if limit is None else (clipped.abs() < limit).to(clipped.dtype)
