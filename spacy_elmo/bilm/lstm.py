"""LSTM with a projected, clipped state (Sak et al. 2014); a direction's stack of them.

    z = x W_x + h W_h + b,   split into gates o, i, f, g
    c' = clip(sigmoid(f + forget_bias) c + sigmoid(i) tanh(g))
    h' = clip((sigmoid(o) tanh(c')) W_p)

Sequences are packed time-major, longest first: step t holds one row for each sequence
longer than t, so rows only ever leave the batch and padding costs nothing.

Shapes: B sequences, N packed rows (all steps of all sequences), I input, C cells,
H projected state, L layers.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .config import BiLMConfig
from .kernels.autograd_lstm import TrainedLayer
from .kernels.cpu_lstm import double_candidate, infer, negate
from .kernels.products import Product


class LstmState(NamedTuple):
    """Carried state of one direction: h (L, B, H) and c (L, B, C)."""

    h: Tensor
    c: Tensor


class LstmpLayer(nn.Module):
    """One projected LSTM layer. Weights are stored input x output, as in the files."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        H, C = config.projection_dim, config.hidden_dim
        self.config = config
        self.weight_x = nn.Parameter(torch.empty(H, 4 * C))
        self.weight_h = nn.Parameter(torch.empty(H, 4 * C))
        self.bias = nn.Parameter(torch.empty(4 * C))
        self.weight_p: nn.Parameter | None = None
        if config.lstm_projection:
            self.weight_p = nn.Parameter(torch.empty(C, H))
        self.by_x = Product()
        self.by_h, self.by_p = Product(double_candidate), Product(negate)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        std = 1 / math.sqrt(2 * self.config.projection_dim)
        nn.init.normal_(self.weight_x, std=std, generator=generator)
        nn.init.normal_(self.weight_h, std=std, generator=generator)
        nn.init.zeros_(self.bias)
        if self.weight_p is not None:
            std = 1 / math.sqrt(self.config.hidden_dim)
            nn.init.normal_(self.weight_p, std=std, generator=generator)

    def forward(
        self, x_NH: Tensor, batch_sizes: Sequence[int], h_BH: Tensor, c_BC: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """RETURNS: outputs (N, H), last h (B, H), last c (B, C) of every sequence."""
        # Under autocast the factors of products are rounded, the state is carried in
        # float32: it adds up over a text.
        device, factors = x_NH.device.type, h_BH.dtype
        if torch.is_autocast_enabled(device):
            factors = torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            x_NH = x_NH.to(h_BH.dtype)
            clips = self.config.cell_clip, self.config.proj_clip
            # It knows a projection by its being narrower.
            known = (self.weight_p is None) == (h_BH.shape[1] == c_BC.shape[1])
            if x_NH.is_cuda and known and clips == (None, None):
                return self.fused(x_NH, batch_sizes, h_BH, c_BC)
            arguments = (
                x_NH, self.weight_x, self.weight_h, self._bias(), self.weight_p,
                h_BH, c_BC, batch_sizes, *clips,
            )  # fmt: skip
            if torch.is_grad_enabled():
                return TrainedLayer.apply(*arguments, factors)
            return infer(*arguments, by_x=self.by_x, by_h=self.by_h, by_p=self.by_p)

    def _bias(self) -> Tensor:
        o, i, f, g = self.bias.chunk(4)
        return torch.cat([o, i, f + self.config.forget_bias, g])

    def fused(
        self, x_NH: Tensor, batch_sizes: Sequence[int], h_BH: Tensor, c_BC: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same by torch's own LSTM (cuDNN's on a GPU), which knows no clips and
        orders the gates i, f, g, o."""
        weight_x, weight_h, bias = (
            torch.cat([i, f, g, o]).contiguous()
            for o, i, f, g in (
                part.chunk(4)
                for part in (self.weight_x.t(), self.weight_h.t(), self._bias())
            )
        )
        weights = [weight_x, weight_h, bias, torch.zeros_like(bias)]
        if self.weight_p is not None:
            weights.append(self.weight_p.t().contiguous())
        y_NH, h_1BH, c_1BC = torch.lstm(
            x_NH,
            torch.tensor(batch_sizes, device="cpu"),
            (h_BH[None].contiguous(), c_BC[None].contiguous()),
            weights,
            True,  # has biases
            1,  # layers
            0.0,  # dropout
            self.training,
            False,  # bidirectional
        )
        return y_NH, h_1BH[0], c_1BC[0]


class LstmStack(nn.Module):
    """The layers of one direction; each reads the one below, with a residual from the
    second on (the recurrent state stays without it)."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.skip_connections = config.skip_connections
        self.layers = nn.ModuleList(LstmpLayer(config) for _ in range(config.n_layers))

    def forward(
        self,
        x_NH: Tensor,
        batch_sizes: Sequence[int],
        state: LstmState,
        dropout: float = 0.0,
    ) -> tuple[list[Tensor], LstmState]:
        """dropout: on the input of every layer, while training (Zaremba et al. 2014).
        RETURNS: the L layers' outputs, each (N, H), and the state after the last step.
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
