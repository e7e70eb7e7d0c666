"""gamma * sum_l s_l h_l (paper, equation 1): one vector a token from the biLM's layers.

The shares s_l of the layers are softmax(w) with trained weights w, or fixed: all the
same, or one layer alone. Or there is no sum, and the layers stand side by side.

Shapes: L1 layers (the token layer included), N tokens, D width.
"""

from dataclasses import dataclass
from typing import Any

from thinc.api import Ops

from ..errors import Errors

MIXES = ("learned", "average", "top", "concat")
EPSILON = 1e-5  # of the layer normalisation


@dataclass(frozen=True)
class MixSettings:
    """How layers are mixed: one block of settings for listeners and for `doc.tensor`.

    Args:
        mix: "learned", "average", "top", "concat", or the number of a layer, 0 being
            the token layer.
        mix_weights: Softmax weights w of a learned mix, one a layer, to begin with;
            zeros, so equal shares, by default.
        layer_norm: Give each token's vector in each layer mean 0 and variance 1 before
            (paper, section 3.2).
        gamma: Scale of the mix, to begin with.

    Raises:
        ValueError: [EL085] for a setting that means nothing.
    """

    mix: str | int = "learned"
    mix_weights: list[float] | None = None
    layer_norm: bool = False
    gamma: float = 1.0

    def __post_init__(self) -> None:
        is_layer = isinstance(self.mix, int) and not isinstance(self.mix, bool)
        if not (is_layer or self.mix in MIXES):
            self._refuse(
                f"mix = {self.mix!r} is none of {', '.join(MIXES)}, nor the number of "
                "a layer"
            )
        if self.mix_weights is not None and not self.is_learned:
            self._refuse(f"mix_weights are of mix = 'learned', not of {self.mix!r}")

    def _refuse(self, problem: str) -> None:
        raise ValueError(Errors.EL085.format(problem=problem))

    @property
    def is_learned(self) -> bool:
        """Whether the mix has softmax weights."""
        return self.mix == "learned"

    def width(self, n_layers: int, width: int) -> int:
        """Return the width of the mix of n_layers of a width.

        Raises:
            ValueError: [EL083] if there is no such layer.
        """
        if isinstance(self.mix, int) and not -n_layers <= self.mix < n_layers:
            raise ValueError(Errors.EL083.format(layer=self.mix, last=n_layers - 1))
        return n_layers * width if self.mix == "concat" else width

    def first_weights(self, n_layers: int) -> list[float]:
        """Return the softmax weights that a mix of n_layers begins with.

        Raises:
            ValueError: [EL057] if mix_weights are not one a layer.
        """
        weights = self.mix_weights or [0.0] * n_layers
        if len(weights) != n_layers:
            found = len(weights)
            raise ValueError(Errors.EL057.format(found=found, expected=n_layers))
        return list(weights)


@dataclass(frozen=True)
class ListenerSettings(MixSettings):
    """The settings of a mix that is trained.

    Args:
        dropout: On the mix, while training.
        l2: lambda of lambda * |w|^2, added to the loss at every backward pass (with
            spaCy's `accumulate_gradient` there are several an update), which draws a
            learned mix towards the average.
    """

    dropout: float = 0.0
    l2: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.dropout < 1:
            self._refuse(f"dropout = {self.dropout} is not from 0 to below 1")
        if self.l2 < 0:
            self._refuse(f"l2 = {self.l2} is below 0")


def shares(ops: Ops, settings: MixSettings, weights_L: Any) -> Any:
    """Return the share s of each layer; those of "concat" are 1, since nothing is
    added up.

    Args:
        ops: Of the arrays.
        settings: What kind of mix it is.
        weights_L: Softmax weights, which a learned mix alone looks at.
    """
    if settings.is_learned:
        e_L = ops.xp.exp(weights_L - weights_L.max())
        return e_L / e_L.sum()
    share_L: Any = ops.alloc1f(len(weights_L))
    if settings.mix == "average":
        share_L += 1 / len(share_L)
    elif settings.mix == "concat":
        share_L += 1
    else:
        share_L[-1 if settings.mix == "top" else settings.mix] = 1
    return share_L


def mix(ops: Ops, settings: MixSettings, layers_LND: Any, scale_L: Any) -> Any:
    """Return scale_L * layers_LND, added up over the layers, (N, D), or, for "concat",
    side by side, (N, L1 * D)."""
    if settings.mix != "concat":
        return ops.xp.einsum("l,lnd->nd", scale_L, layers_LND)
    Y_NLD = ops.xp.einsum("l,lnd->nld", scale_L, layers_LND)
    n_tokens, n_layers, width = Y_NLD.shape
    return Y_NLD.reshape(n_tokens, n_layers * width)


def first_mix(ops: Ops, settings: MixSettings, layers_LND: Any) -> Any:
    """Return the mix that the settings begin with, which nothing has trained."""
    if settings.layer_norm:
        layers_LND = normalize(ops, layers_LND)
    weights_L = ops.asarray1f(settings.first_weights(len(layers_LND)))
    scale_L = settings.gamma * shares(ops, settings, weights_L)
    return mix(ops, settings, layers_LND, scale_L)


def d_mix(ops: Ops, settings: MixSettings, dY: Any, shape: tuple[int, int, int]) -> Any:
    """Return the gradient of scale_L * layers_LND, of a shape (L1, N, D), from that of
    the mix."""
    n_layers, n_tokens, width = shape
    if settings.mix != "concat":
        return ops.xp.broadcast_to(dY, shape)  # of a sum: the same for each layer
    return dY.reshape(n_tokens, n_layers, width).transpose(1, 0, 2)


def normalize(ops: Ops, layers_LND: Any) -> Any:
    """Return each token's vector in each layer with mean 0 and variance 1."""
    centered = layers_LND - layers_LND.mean(2, keepdims=True)
    return centered / _deviation(ops, layers_LND)


def d_normalize(ops: Ops, layers_LND: Any, normalized_LND: Any, dY_LND: Any) -> Any:
    """Return the gradient of the layers from that of the normalised layers."""
    along = normalized_LND * (dY_LND * normalized_LND).mean(2, keepdims=True)
    centered = dY_LND - dY_LND.mean(2, keepdims=True)
    return (centered - along) / _deviation(ops, layers_LND)


def _deviation(ops: Ops, layers_LND: Any) -> Any:
    return ops.xp.sqrt(layers_LND.var(2, keepdims=True) + EPSILON)
