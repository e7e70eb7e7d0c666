"""gamma * sum_j softmax(w)_j h_j (paper, equation 1) over a Doc's layers, in Thinc.

Shapes: L1 layers (the token layer included), T tokens, D width.
"""

from collections.abc import Callable, Sequence
from typing import Any

from thinc.api import Model, Ops
from thinc.types import Floats1d, Floats2d, Floats3d


def shares(ops: Ops, weights_L: Floats1d) -> Floats1d:
    """softmax(w), as float32 on the ops' device."""
    e_L = ops.xp.exp(weights_L - weights_L.max())
    return e_L / e_L.sum()


def mix(
    ops: Ops, layers: Sequence[Floats3d], weights_L: Floats1d, gamma_1: Floats1d
) -> list[Floats2d]:
    """Layers of each Doc (L1, T, D) -> (T, D), a vector a token, in its own memory."""
    scale_L = gamma_1 * shares(ops, weights_L)
    return [ops.xp.einsum("l,ltd->td", scale_L, layers_LTD) for layers_LTD in layers]


def set_up(model: Model, n_layers: int) -> None:
    """Give a model the parameters of a mix that is not trained: w = 0, gamma = 1."""
    model.set_param("W", model.ops.alloc1f(n_layers))
    model.set_param("gamma", model.ops.alloc1f(1) + 1)


def is_trained(model: Model) -> bool:
    if not model.has_param("W"):
        return False
    W: Any = model.get_param("W")
    gamma: Any = model.get_param("gamma")
    return bool(W.any() or (gamma != 1).any())


def mix_with_params(
    model: Model, layers: Sequence[Floats3d]
) -> tuple[list[Floats2d], Callable[[Sequence[Floats2d]], Callable[[int], Floats3d]]]:
    """Mix with a model's W and gamma.

    RETURNS: the mixes, and a backward function: it adds to the gradients of W and gamma
    and gives a function from the number of a Doc to the gradient of its layers, so that
    nothing is computed for layers that don't learn.
    """
    ops, xp = model.ops, model.ops.xp
    # Any, since Thinc's array types know only a part of what arrays can do.
    weights_L: Any = model.get_param("W")
    gamma_1: Any = model.get_param("gamma")
    share_L: Any = shares(ops, weights_L)
    Y = mix(ops, layers, weights_L, gamma_1)

    def backprop(dY: Sequence[Floats2d]) -> Callable[[int], Floats3d]:
        # How much the loss moves with each layer's share of the mix, gamma apart.
        by_layer_L: Any = ops.alloc1f(len(share_L))
        for layers_LTD, dY_TD in zip(layers, dY):
            by_layer_L += xp.einsum("ltd,td->l", layers_LTD, dY_TD)
        total = (share_L * by_layer_L).sum()
        model.inc_grad("gamma", xp.reshape(total, (1,)))
        model.inc_grad("W", gamma_1 * share_L * (by_layer_L - total))
        scale_L = gamma_1 * share_L
        return lambda d: xp.einsum("l,td->ltd", scale_L, dY[d])

    return Y, backprop
