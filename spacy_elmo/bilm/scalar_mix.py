"""gamma * sum_j softmax(w)_j h_j (paper, equation 1), as a torch module.

Shapes: L1 layers (the token layer included), B sequences, T tokens, D width.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

# bilm-tf and AllenNLP normalise with different eps.
EPS = {"bilm-tf": 1e-12, "allennlp": 1e-13}


class ScalarMix(nn.Module):
    """w starts at 0 (equal weights) and gamma at 1.

    layer_norm: normalise each layer first, by one mean and one variance over all its
        unmasked elements; None for no normalisation.
    """

    def __init__(
        self, n_layers: int, *, layer_norm: Literal["bilm-tf", "allennlp"] | None = None
    ) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(n_layers))
        self.gamma = nn.Parameter(torch.ones(()))
        self.layer_norm = layer_norm

    def forward(
        self, layers: Sequence[Tensor] | Tensor, mask_BT: Tensor | None = None
    ) -> Tensor:
        """layers: L1 tensors (B, T, D). mask_BT: true where a token is; only layer
        normalisation looks at it. RETURNS: (B, T, D)."""
        share = torch.softmax(self.weights, dim=0)
        if self.layer_norm is not None:
            eps = EPS[self.layer_norm]
            layers = [_normalise(layer, mask_BT, eps) for layer in layers]
        return self.gamma * sum(s * layer for s, layer in zip(share, layers))


def _normalise(layer_BTD: Tensor, mask_BT: Tensor | None, eps: float) -> Tensor:
    if mask_BT is None:
        mask_BT = torch.ones(layer_BTD.shape[:2], device=layer_BTD.device)
    mask = mask_BT[..., None].to(layer_BTD.dtype)
    n = mask.sum() * layer_BTD.shape[-1]
    mean = (layer_BTD * mask).sum() / n
    variance = (((layer_BTD - mean) * mask) ** 2).sum() / n
    return (layer_BTD - mean) / torch.sqrt(variance + eps)
