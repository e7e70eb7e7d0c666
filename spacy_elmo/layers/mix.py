"""gamma * sum_j s_j h_j (paper, equation 1) over a Doc's layers, in Thinc.

The shares s of the layers are softmax(w) with trained w, or fixed: all the same, one
layer alone. Or there is no sum, and the layers stand side by side.

Shapes: L1 layers (the token layer included), T tokens, D width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from thinc.api import Model, Ops
from thinc.types import Floats1d, Floats2d, Floats3d

from ..errors import Errors

MIXES = ("learned", "average", "top", "concat")
EPSILON = 1e-5  # of the layer normalisation


@dataclass(frozen=True)
class MixSettings:
    """mix: "learned", "average", "top", "concat", or the number of a layer, 0 being the
    token layer. layer_norm: give each token's vector in each layer mean 0 and variance
    1 before (paper, section 3.2). dropout: on the mix, while training. l2: lambda of
    lambda * |w|^2, added to the loss at every backward pass (with spaCy's
    `accumulate_gradient` there are several an update), which draws a learned mix
    towards the average. gamma: its scale to begin with.

    Raises ValueError [EL085].
    """

    mix: str | int = "learned"
    layer_norm: bool = False
    dropout: float = 0.0
    l2: float = 0.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        layer = isinstance(self.mix, int) and not isinstance(self.mix, bool)
        if not (layer or self.mix in MIXES):
            raise ValueError(
                Errors.EL085.format(
                    problem=f"mix = {self.mix!r} is none of {', '.join(MIXES)}, nor "
                    "the number of a layer"
                )
            )
        if not 0 <= self.dropout < 1:
            problem = f"dropout = {self.dropout} is not from 0 to below 1"
            raise ValueError(Errors.EL085.format(problem=problem))
        if self.l2 < 0:
            raise ValueError(Errors.EL085.format(problem=f"l2 = {self.l2} is below 0"))

    @property
    def is_learned(self) -> bool:
        return self.mix == "learned"

    def width(self, n_layers: int, width: int) -> int:
        """Of what comes out, of layers of a width. Raises ValueError [EL083] if there
        is no such layer."""
        if isinstance(self.mix, int) and not -n_layers <= self.mix < n_layers:
            raise ValueError(Errors.EL083.format(layer=self.mix, last=n_layers - 1))
        return n_layers * width if self.mix == "concat" else width


def softmax(ops: Ops, weights_L: Floats1d) -> Floats1d:
    e_L = ops.xp.exp(weights_L - weights_L.max())
    return e_L / e_L.sum()


def mix(
    ops: Ops, layers: Sequence[Floats3d], weights_L: Floats1d, gamma_1: Floats1d
) -> list[Floats2d]:
    """Layers of each Doc (L1, T, D) -> (T, D), a vector a token, in its own memory."""
    scale_L = gamma_1 * softmax(ops, weights_L)
    return [ops.xp.einsum("l,ltd->td", scale_L, layers_LTD) for layers_LTD in layers]


def set_up(model: Model, settings: MixSettings, n_layers: int) -> None:
    """Give a model the parameters of a mix that is not trained: w = 0, and gamma."""
    if settings.is_learned:
        model.set_param("W", model.ops.alloc1f(n_layers))
    model.set_param("gamma", model.ops.alloc1f(1) + settings.gamma)


def is_trained(model: Model, settings: MixSettings) -> bool:
    W: Any = model.get_param("W") if model.has_param("W") else model.ops.alloc1f(1)
    gamma: Any = model.get_param("gamma") if model.has_param("gamma") else None
    return bool(W.any() or (gamma is not None and (gamma != settings.gamma).any()))


def shares(model: Model, settings: MixSettings, n_layers: int) -> Floats1d:
    """s of each layer; those of "concat" are 1, since nothing is added up."""
    if settings.is_learned:
        weights_L: Any = model.get_param("W")
        return softmax(model.ops, weights_L)
    share_L: Any = model.ops.alloc1f(n_layers)
    if settings.mix == "average":
        share_L += 1 / n_layers
    elif settings.mix == "concat":
        share_L += 1
    else:
        share_L[-1 if settings.mix == "top" else settings.mix] = 1
    return share_L


def mix_with_params(
    model: Model,
    settings: MixSettings,
    layers: Sequence[Floats3d],
    n_layers: int,
    is_train: bool,
) -> tuple[list[Floats2d], Callable[[Sequence[Floats2d]], Callable[[int], Floats3d]]]:
    """Mix with a model's W and gamma.

    RETURNS: the mixes, and a backward function: it adds to the gradients of W and gamma
    and gives a function from the number of a Doc to the gradient of its layers, so that
    nothing is computed for layers that don't learn.
    """
    # Any, since Thinc's array types know only a part of what arrays can do.
    xp: Any = model.ops.xp
    ops: Any = model.ops
    gamma_1: Any = model.get_param("gamma")
    inputs: Any = layers
    if settings.layer_norm:
        inputs = [_normalized(xp, layers_LTD) for layers_LTD in layers]
    share_L: Any = shares(model, settings, n_layers)
    scale_L = gamma_1 * share_L
    formula = "l,ltd->tld" if settings.mix == "concat" else "l,ltd->td"
    Y = [xp.einsum(formula, scale_L, x) for x in inputs]
    if settings.mix == "concat":
        Y = [Y_TLD.reshape(len(Y_TLD), len(share_L) * Y_TLD.shape[2]) for Y_TLD in Y]
    masks = None
    if is_train and settings.dropout:
        masks = [ops.get_dropout_mask(Y_TD.shape, settings.dropout) for Y_TD in Y]
        Y = [Y_TD * mask for Y_TD, mask in zip(Y, masks)]

    def backprop(dY: Sequence[Any]) -> Callable[[int], Floats3d]:
        if masks is not None:
            dY = [dY_TD * mask for dY_TD, mask in zip(dY, masks)]
        dY = [_per_layer(xp, dY_T, x_LTD) for dY_T, x_LTD in zip(dY, inputs)]
        # How much the loss moves with each layer's share of the mix, gamma apart.
        by_layer_L: Any = ops.alloc1f(len(share_L))
        for x_LTD, dY_LTD in zip(inputs, dY):
            by_layer_L += xp.einsum("ltd,ltd->l", x_LTD, dY_LTD)
        total = (share_L * by_layer_L).sum()
        model.inc_grad("gamma", xp.reshape(total, (1,)))
        if settings.is_learned:
            d_W = gamma_1 * share_L * (by_layer_L - total)
            weights_L: Any = model.get_param("W")
            model.inc_grad("W", d_W + 2 * settings.l2 * weights_L)

        def d_layers(d: int) -> Floats3d:
            gradient = scale_L[:, None, None] * dY[d]
            if settings.layer_norm:
                return _d_normalized(xp, layers[d], inputs[d], gradient)
            return gradient

        return d_layers

    return Y, backprop


def _per_layer(xp: Any, dY: Any, x_LTD: Any) -> Any:
    """The gradient of a sum (T, D), the same for all layers, or of layers side by side
    (T, L1 * D), as (L1, T, D)."""
    L1, T, D = x_LTD.shape
    if dY.shape[1] == D:
        return xp.broadcast_to(dY, x_LTD.shape)
    return dY.reshape(T, L1, D).transpose(1, 0, 2)


def _normalized(xp: Any, layers_LTD: Any) -> Any:
    centered = layers_LTD - layers_LTD.mean(2, keepdims=True)
    return centered / _deviation(xp, layers_LTD)


def _deviation(xp: Any, layers_LTD: Any) -> Any:
    return xp.sqrt(layers_LTD.var(2, keepdims=True) + EPSILON)


def _d_normalized(xp: Any, layers_LTD: Any, normalized_LTD: Any, dY_LTD: Any) -> Any:
    along = normalized_LTD * (dY_LTD * normalized_LTD).mean(2, keepdims=True)
    centered = dY_LTD - dY_LTD.mean(2, keepdims=True)
    return (centered - along) / _deviation(xp, layers_LTD)
