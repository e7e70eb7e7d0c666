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
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .config import BiLMConfig


class LstmState(NamedTuple):
    """Carried state of one direction: h (L, B, H) and c (L, B, C)."""

    h: Tensor
    c: Tensor


class _LstmpLayer(torch.autograd.Function):
    """One layer over all steps, with its gradient written out.

    Written out because autograd would add up the weights' gradients step by step;
    here they are single products over all steps, and all pointwise derivatives are
    formed before the loop. tests/bilm/test_lstm.py holds it against autograd.
    """

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
        batch_sizes: Sequence[int],
        cell_clip: float | None,
        proj_clip: float | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        C = c_BC.shape[1]
        keep = any(ctx.needs_input_grad)
        h0_BH, c0_BC = h_BH, c_BC
        h_BH, c_BC = h_BH.clone(), c_BC.clone()
        # The input half of every gate of every step in one product.
        gates_N4C = torch.addmm(bias, x_NI, weight_x)
        y_NH = x_NI.new_empty(len(x_NI), h_BH.shape[1])
        cells_NC = x_NI.new_empty(len(x_NI), C) if keep else None
        start = 0
        for b in batch_sizes:
            step = slice(start, start + b)
            start += b
            z, h, c, y = gates_N4C[step], h_BH[:b], c_BC[:b], y_NH[step]
            z.addmm_(h, weight_h)
            z[:, : 3 * C].sigmoid_()
            z[:, 3 * C :].tanh_()
            o, i, f, g = z.split(C, dim=1)
            c.mul_(f).addcmul_(i, g)
            if cell_clip is not None:
                c.clamp_(-cell_clip, cell_clip)
            m = torch.tanh(c).mul_(o)
            if weight_p is None:
                y.copy_(m)
            else:
                torch.mm(m, weight_p, out=y)
                if proj_clip is not None:
                    y.clamp_(-proj_clip, proj_clip)
            h.copy_(y)
            if cells_NC is not None:
                cells_NC[step] = c
        if cells_NC is not None:
            ctx.save_for_backward(
                x_NI,
                weight_x,
                weight_h,
                weight_p,
                h0_BH,
                c0_BC,
                gates_N4C,
                cells_NC,
                y_NH,
            )
            ctx.batch_sizes, ctx.clips = batch_sizes, (cell_clip, proj_clip)
        return y_NH, h_BH, c_BC

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_NH: Tensor, dh_BH: Tensor, dc_BC: Tensor) -> Any:
        x_NI, weight_x, weight_h, weight_p, h0_BH, c0_BC, gates_N4C, cells_NC, y_NH = (
            ctx.saved_tensors
        )
        cell_clip, proj_clip = ctx.clips
        C = cells_NC.shape[1]
        dh_BH, dc_BC = dh_BH.clone(), dc_BC.clone()
        o, i, f, g = gates_N4C.split(C, dim=1)
        h_before_NH = _one_step_before(y_NH, h0_BH, ctx.batch_sizes)
        c_before_NC = _one_step_before(cells_NC, c0_BC, ctx.batch_sizes)
        tanh_c_NC = torch.tanh(cells_NC)
        # Derivatives of the gates before their activation (z) by m = o tanh(c) and by
        # c, and of c by m and by the c of the step before.
        zo_by_m = tanh_c_NC * o * (1 - o)
        z_by_c = torch.cat(
            [g * i * (1 - i), c_before_NC * f * (1 - f), i * (1 - g * g)], dim=1
        )
        c_by_m = o * (1 - tanh_c_NC * tanh_c_NC)
        c_by_c = f
        if (
            cell_clip is not None
        ):  # a clipped cell passes nothing to what it was made of
            free_NC = (cells_NC.abs() < cell_clip).to(cells_NC.dtype)
            z_by_c = (z_by_c.view(-1, 3, C) * free_NC[:, None]).view(-1, 3 * C)
            c_by_c = f * free_NC
        free_NH = None
        if proj_clip is not None and weight_p is not None:
            free_NH = (y_NH.abs() < proj_clip).to(y_NH.dtype)

        dz_N4C = torch.empty_like(gates_N4C)
        dproj_NH = torch.empty_like(y_NH)
        weight_hT = weight_h.t().contiguous()
        weight_pT = None if weight_p is None else weight_p.t().contiguous()
        start = len(x_NI)
        for b in reversed(ctx.batch_sizes):
            step = slice(start - b, start)
            start -= b
            dh, dc, dz = dh_BH[:b], dc_BC[:b], dz_N4C[step]
            dproj = torch.add(dy_NH[step], dh, out=dproj_NH[step])
            if free_NH is not None:
                dproj.mul_(free_NH[step])
            dm = dproj if weight_pT is None else dproj @ weight_pT
            torch.mul(dm, zo_by_m[step], out=dz[:, :C])
            dc.addcmul_(dm, c_by_m[step])
            dz[:, C:].unflatten(1, (3, C)).copy_(
                dc[:, None] * z_by_c[step].unflatten(1, (3, C))
            )
            dc.mul_(c_by_c[step])
            torch.mm(dz, weight_hT, out=dh)

        dweight_p = None if weight_p is None else (o * tanh_c_NC).t() @ dproj_NH
        return (
            dz_N4C @ weight_x.t(),
            x_NI.t() @ dz_N4C,
            h_before_NH.t() @ dz_N4C,
            dz_N4C.sum(0),
            dweight_p,
            dh_BH,
            dc_BC,
            None,
            None,
            None,
        )


def _one_step_before(
    rows_N: Tensor, first_B: Tensor, batch_sizes: Sequence[int]
) -> Tensor:
    """Packed rows -> the same sequences' rows one step earlier, packed alike."""
    pieces, start = [first_B[: batch_sizes[0]]], 0
    for b, b_next in pairwise(batch_sizes):
        pieces.append(rows_N[start : start + b_next])
        start += b
    return torch.cat(pieces)


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
        # Under autocast too the state is carried in float32: it adds up over a text.
        with torch.autocast(x_NH.device.type, enabled=False):
            x_NH = x_NH.to(h_BH.dtype)
            clips = self.config.cell_clip, self.config.proj_clip
            same_length = batch_sizes[0] == batch_sizes[-1]
            # It knows a projection by its being narrower. Not for vectors: a sentence's
            # would depend on whether the others of its batch are as long.
            known = (self.weight_p is None) == (h_BH.shape[1] == c_BC.shape[1])
            learns = self.training and torch.is_grad_enabled()
            fits = learns and same_length and known and clips == (None, None)
            if x_NH.is_cuda and fits:
                return self.fused(x_NH, len(batch_sizes), h_BH, c_BC)
            return _LstmpLayer.apply(
                x_NH, self.weight_x, self.weight_h, self._bias(), self.weight_p,
                h_BH, c_BC, batch_sizes, *clips,
            )  # fmt: skip

    def _bias(self) -> Tensor:
        o, i, f, g = self.bias.chunk(4)
        return torch.cat([o, i, f + self.config.forget_bias, g])

    def fused(
        self, x_NH: Tensor, n_steps: int, h_BH: Tensor, c_BC: Tensor
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
        y_TBH, h_1BH, c_1BC = torch.lstm(
            x_NH.unflatten(0, (n_steps, -1)),
            (h_BH[None].contiguous(), c_BC[None].contiguous()),
            weights,
            True,  # has biases
            1,  # layers
            0.0,  # dropout
            self.training,
            False,  # bidirectional
            False,  # batch first
        )
        return y_TBH.flatten(0, 1), h_1BH[0], c_1BC[0]


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
