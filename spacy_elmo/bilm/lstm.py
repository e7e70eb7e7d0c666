"""LSTM with a projected, clipped state (Sak et al. 2014), and a stack of its layers.

    z  = x W_x + h W_h + b                           split into the gates o, i, f, g
    c' = clip(sigmoid(f + forget_bias) * c + sigmoid(i) * tanh(g))
    h' = clip((sigmoid(o) * tanh(c')) W_p)

Sequences are packed time-major, the longest first. Step t has batch_sizes[t] rows, one
for each sequence that is longer than t. So batch sizes never grow.

Shapes: B sequences, N packed rows of all steps, C cells, H projection, L layers.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .config import BiLMConfig
from .parameter import parameter


class LstmState(NamedTuple):
    """The state of one direction between two steps: h (L, B, H) and c (L, B, C)."""

    h: Tensor
    c: Tensor


class BiLMState(NamedTuple):
    """The states of both directions between two batches."""

    forward: LstmState
    backward: LstmState

    @classmethod
    def zeros(cls, config: BiLMConfig, batch_size: int, like: Tensor) -> "BiLMState":
        """Return the state of batch_size new sequences, in the dtype and on the device
        of `like`."""
        h = like.new_zeros(config.n_layers, batch_size, config.projection_dim)
        c = like.new_zeros(config.n_layers, batch_size, config.hidden_dim)
        return cls(LstmState(h, c), LstmState(h.clone(), c.clone()))

    @classmethod
    def join(cls, states: Sequence["BiLMState"]) -> "BiLMState":
        """Return one state with the sequences of several states, in order."""
        forward, backward = (
            LstmState(*(torch.cat(parts, dim=1) for parts in zip(*direction)))
            for direction in zip(*states)
        )
        return cls(forward, backward)

    def map(self, change: Callable[[Tensor], Tensor]) -> "BiLMState":
        """Apply a function to each tensor, (L, B, H) or (L, B, C). Return the state of
        its results."""
        forward, backward = (LstmState(change(h), change(c)) for h, c in self)
        return BiLMState(forward, backward)

    def select(self, rows_B: Tensor) -> "BiLMState":
        """Return the state of these sequences, in this order."""
        return self.map(lambda part: part.index_select(1, rows_B))

    def rows(self, rows: slice) -> "BiLMState":
        """Return the state of a range of sequences."""
        return self.map(lambda part: part[:, rows].contiguous())


class LstmLayer(nn.Module):
    """One projected LSTM layer. Weights are stored input x output, as published."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        H, C = config.projection_dim, config.hidden_dim
        self.config = config
        self.weight_x = parameter(H, 4 * C)
        self.weight_h = parameter(H, 4 * C)
        self.bias = parameter(4 * C)
        self.weight_p: nn.Parameter | None = None
        if config.lstm_projection:
            self.weight_p = parameter(C, H)

    def forward(
        self, x_NH: Tensor, batch_sizes: Sequence[int], h_BH: Tensor, c_BC: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return outputs (N, H), and every sequence's last h (B, H) and c (B, C).

        Args:
            x_NH: Inputs of all steps.
            batch_sizes: Number of sequences that are longer than t, for each step t.
            h_BH: Outputs of the step before the first.
            c_BC: Cells of the step before the first.
        """
        outputs = []
        for x, b in zip(x_NH.split(list(batch_sizes)), batch_sizes):
            z = x @ self.weight_x + h_BH[:b] @ self.weight_h + self.bias
            o, i, f, g = z.chunk(4, dim=1)
            c = torch.sigmoid(f + self.config.forget_bias) * c_BC[:b]
            c = _clip(c + torch.sigmoid(i) * torch.tanh(g), self.config.cell_clip)
            h = torch.sigmoid(o) * torch.tanh(c)
            if self.weight_p is not None:
                h = _clip(h @ self.weight_p, self.config.proj_clip)
            # Sequences that ended before this step keep their last state.
            h_BH, c_BC = torch.cat([h, h_BH[b:]]), torch.cat([c, c_BC[b:]])
            outputs.append(h)
        return torch.cat(outputs), h_BH, c_BC


def _clip(x: Tensor, limit: float | None) -> Tensor:
    return x if limit is None else x.clamp(-limit, limit)


class LstmStack(nn.Module):
    """The layers of one direction. Each layer reads the layer below it. From the second
    on a residual connection adds the input to the output, but not to the state h."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.skip_connections = config.skip_connections
        self.layers = nn.ModuleList(LstmLayer(config) for _ in range(config.n_layers))

    def forward(
        self,
        x_NH: Tensor,
        batch_sizes: Sequence[int],
        state: LstmState,
        dropout: float = 0.0,
    ) -> tuple[list[Tensor], LstmState]:
        """Return the L layers' outputs, each (N, H), and the state after the last step.

        Args:
            x_NH: Token vectors at all positions.
            batch_sizes: Number of sequences that are longer than t, for each step t.
            state: The state before the first step.
            dropout: Rate on the input of every layer in training (Zaremba et al. 2014).
        """
        outputs, h_LBH, c_LBC = [], [], []
        for i, layer in enumerate(self.layers):
            dropped_NH = nn.functional.dropout(x_NH, dropout, self.training)
            y_NH, h_BH, c_BC = layer(dropped_NH, batch_sizes, state.h[i], state.c[i])
            x_NH = y_NH + x_NH if self.skip_connections and i > 0 else y_NH
            outputs.append(x_NH)
            h_LBH.append(h_BH)
            c_LBC.append(c_BC)
        return outputs, LstmState(torch.stack(h_LBH), torch.stack(c_LBC))
