"""The LSTM layers of both directions at once, for GPUs.

A step is a recurrent matrix multiplication by the vendor's library, the cell, and the
projection. Each of the three is one launch for both directions. gpu_operator.py has
them as one operator of torch for a layer.

Shapes: as in lstm.py, with both directions (2) first; I columns of the input.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from ..config import BiLMConfig
from ..lstm import BiLMState, LstmLayer, LstmState
from ..model import BidirectionalLM
from .kernel import DispatchKey, Inputs, Outputs
from .layer_by_layer import read_stack
from .torch_lstm import gate_bias


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
