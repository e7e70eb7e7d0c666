"""The LSTM layers of both directions at once, for GPUs.

A step is a recurrent matrix multiplication by the vendor's library, the cell, and the
projection. Each of the three is one launch for both directions. gpu_operator.py has
them as one operator of torch for a layer.

Shapes: as in lstm.py, with both directions (2) first; I columns of the input.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from ..config import BiLMConfig
from ..lstm import BiLMState, LstmLayer, LstmState
from ..model import BidirectionalLM
from .kernel import DispatchKey
from .torch_lstm import gate_bias


def can_run(key: DispatchKey, config: BiLMConfig) -> bool:
    """Return whether layers have a projection: a step ends with it."""
    return config.lstm_projection


def prepare(model: BidirectionalLM, key: DispatchKey) -> DispatchKey:
    """Return the dispatch key: the kernel reads the weights of the model."""
    return key


def read(
    model: BidirectionalLM,
    key: DispatchKey,
    x_VH: Tensor,
    forward_N: Tensor,
    backward_N: Tensor,
    batch_sizes: Sequence[int],
    state: BiLMState,
    dropout: float = 0.0,
) -> tuple[list[Tensor], list[Tensor], BiLMState]:
    """Compute `model.read`, both directions at once."""
    forward, backward = model.forward_lstm, model.backward_lstm
    dtype = _matmul_dtype(key, x_VH.device.type)
    x_2NI = embedding(torch.stack([forward_N, backward_N]), x_VH)
    x_2NI = x_2NI.to(state.forward.h.dtype)
    outputs, h_2BH, c_2BC = [], [], []
    pairs: Any = enumerate(zip(forward.layers, backward.layers))
    for i, (ahead, back) in pairs:
        dropped_2NI = nn.functional.dropout(x_2NI, dropout, forward.training)
        h_0, c_0 = (torch.stack([d[i] for d in part]) for part in zip(*state))
        with torch.autocast(x_2NI.device.type, enabled=False):
            rest = dropped_2NI, batch_sizes, h_0, c_0, dtype
            y_2NH, h_1, c_1 = run(ahead, back, *rest)
        x_2NI = y_2NH + x_2NI if forward.skip_connections and i > 0 else y_2NH
        outputs.append(x_2NI)
        h_2BH.append(h_1)
        c_2BC.append(c_1)
    h, c = torch.stack(h_2BH, dim=1), torch.stack(c_2BC, dim=1)
    after = BiLMState(LstmState(h[0], c[0]), LstmState(h[1], c[1]))
    return [y[0] for y in outputs], [y[1] for y in outputs], after


def _matmul_dtype(key: DispatchKey, device: str) -> torch.dtype:
    """Return the dtype that both factors of a matrix multiplication are rounded to."""
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    half = key.precision == "half" and not key.gradient
    return torch.float16 if half else key.dtype


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
    from .gpu_operator import bilstm  # registers it in this process, at first use

    config, both = forward.config, (forward, backward)
    biases = [gate_bias(layer.bias, config.forget_bias) for layer in both]
    projections: list[Any] = [layer.weight_p for layer in both]
    outputs = bilstm(
        x_2NI,
        torch.stack([forward.weight_x, backward.weight_x]),
        torch.stack([forward.weight_h, backward.weight_h]),
        torch.stack(biases),
        torch.stack(projections),
        h_2BH,
        c_2BC,
        list(batch_sizes),
        config.cell_clip,
        config.proj_clip,
        dtype,
    )
    return outputs[0], outputs[1], outputs[2]
