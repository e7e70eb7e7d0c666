"""The LSTM layer for one sequence without a gradient, by NumPy.

Each step multiplies one row, so it takes as long as reading the weights and calling
functions: NumPy's library reads them in two thirds of the time of torch's, and its
functions take half as long to call (AMD EPYC, Zen 4; small published size: 1.9 ms a
layer and 22 steps, for 3.5 ms by cpu_lstm.py and 1.1 ms of reading the weights and
multiplying the inputs). The weights are the layer's own, not copies.

Shapes: as in lstm.py; B = 1.
"""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from ..lstm import LstmLayer
from .cpu_lstm import PackedWeights


def run(
    layer: LstmLayer,
    packed: PackedWeights,
    x_NI: Tensor,
    batch_sizes: Sequence[int],
    h_BH: Tensor,
    c_BC: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `layer` returns. Arguments are those of `cpu_lstm.run`."""
    C, weight_p = c_BC.shape[1], layer.weight_p
    weights = (
        layer.weight_h.detach().numpy(),
        (None if weight_p is None else weight_p.detach().numpy()),
    )
    y_NH, c_BC = x_NI.new_empty(len(x_NI), h_BH.shape[1]), c_BC.clone()
    h, c = h_BH.numpy()[0], c_BC.numpy()[0]
    with np.errstate(all="ignore"):  # vectors are looked at in the end
        n_rows = packed.x.block_bytes // (16 * C)
        for x, y in zip(x_NI.split(n_rows), y_NH.split(n_rows)):
            gates_N4C = packed.x.at(len(x)).linear(x, packed.bias)
            gates_N4C[:, : 3 * C] *= 0.5
            h = _steps(layer, *weights, gates_N4C.numpy(), y.numpy(), h, c)
    return y_NH, y_NH[-1:].clone(), c_BC


def _steps(
    layer: LstmLayer,
    weight_h: np.ndarray,
    weight_p: np.ndarray | None,
    gates_N4C: np.ndarray,
    y_NH: np.ndarray,
    h: np.ndarray,
    c: np.ndarray,
) -> np.ndarray:
    """Write the outputs y from h and c on, the latter in place, and return the last h.
    gates: their input half, o, i and f divided by two."""
    C = len(c)
    cell_clip, proj_clip = layer.config.cell_clip, layer.config.proj_clip
    half, one = np.float32(0.5), np.float32(1)
    z, m = np.empty(4 * C, np.float32), np.empty(C, np.float32)
    sigmoids, (o, i, f, g) = z[: 3 * C], z.reshape(4, C)
    for gates, y in zip(gates_N4C, y_NH):
        np.dot(h, weight_h, out=z)
        sigmoids *= half  # sigmoid(x) = tanh(x / 2) / 2 + 1 / 2
        z += gates
        np.tanh(z, z)
        sigmoids += one
        sigmoids *= half
        c *= f
        i *= g
        c += i
        if cell_clip is not None:
            c.clip(-cell_clip, cell_clip, out=c)
        np.tanh(c, m)
        if weight_p is None:
            np.multiply(m, o, y)
        else:
            m *= o
            np.dot(m, weight_p, out=y)
            if proj_clip is not None:
                y.clip(-proj_clip, proj_clip, out=y)
        h = y
    return h
