"""A Thinc model with a mix of its own: weights W and a gamma, which are trained.

Shapes: L1 layers (the token layer included), N tokens of a batch of Docs, D width.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from thinc.api import Model, to_numpy
from thinc.types import Floats2d

from .layer_batch import LayerBatch
from .mix import ListenerSettings, d_mix, d_normalize, mix, normalize, shares

# From the gradient of each Doc's mix to a function that gives the gradient of their
# layers, so that nothing is computed for layers that don't learn.
MixBackprop = Callable[[Sequence[Floats2d]], Callable[[], LayerBatch]]


class MixModel(Model[Any, Any]):
    """Model[list[Doc], list[Floats2d]] that mixes the layers of Docs.

    Args:
        name: Of the model, in saved files too.
        forward: Its forward function.
        settings: Of the mix.
        init: Its function for `initialize`, if it has one.
        layers: Models inside.
    """

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any],
        settings: ListenerSettings,
        *,
        init: Callable[..., None] | None = None,
        layers: Sequence[Model[Any, Any]] = (),
    ) -> None:
        super().__init__(
            name,
            forward,
            init=init,
            dims={"nO": None},
            params={"W": None, "gamma": None},
            layers=layers,
        )
        self.settings = settings

    @property
    def n_trained(self) -> int:
        """Layers that it has weights for, 0 if its mix is fixed."""
        return len(self.get_param("W")) if self.has_param("W") else 0

    def set_up(self, n_layers: int) -> None:
        """Begin with a mix of n_layers that is not trained.

        Raises:
            ValueError: [EL057] if the settings have weights for another number.
        """
        if self.settings.is_learned:
            first = self.settings.first_weights(n_layers)
            self.set_param("W", self.ops.asarray1f(first))
        self.set_param("gamma", self.ops.asarray1f([self.settings.gamma]))

    @property
    def is_trained(self) -> bool:
        """Whether the mix is another one than it began with."""
        if not self.has_param("gamma"):
            return False
        first = self.settings.first_weights(self.n_trained) if self.n_trained else []
        begun_with = np.array([*first, self.settings.gamma], dtype="float32")
        names = [name for name in ("W", "gamma") if self.has_param(name)]
        now = [to_numpy(self.get_param(name)) for name in names]
        return not np.array_equal(np.concatenate(now), begun_with)

    def shares(self, n_layers: int) -> Any:
        """Return the share of each of n_layers in the mix, (L1,)."""
        W: Any = self.get_param("W") if self.n_trained else self.ops.alloc1f(n_layers)
        return shares(self.ops, self.settings, W)

    def copy_mix(self, source: "MixModel") -> None:
        """Take over the weights and gamma of another model."""
        for name in ("W", "gamma"):
            if source.has_param(name):
                self.set_param(name, source.get_param(name).copy())

    def mix(
        self, layers: LayerBatch, is_train: bool
    ) -> tuple[list[Floats2d], MixBackprop]:
        """Mix the layers of Docs.

        Returns:
            The mix of each Doc, (T, D), or (T, L1 * D) for "concat", and the backward
            pass, which adds to the gradients of W and gamma.
        """
        ops: Any = self.ops
        settings = self.settings
        gamma_1: Any = self.get_param("gamma")
        share_L = self.shares(len(layers.values))
        scale_L = gamma_1 * share_L
        x_LND: Any = layers.values
        if settings.layer_norm:
            x_LND = normalize(ops, x_LND)
        Y = mix(ops, settings, x_LND, scale_L)
        mask: Any = None
        if is_train and settings.dropout:
            mask = ops.get_dropout_mask(Y.shape, settings.dropout)
            Y = Y * mask

        def backprop(dY_docs: Sequence[Any]) -> Callable[[], LayerBatch]:
            dY = ops.xp.concatenate([*dY_docs, Y[:0]])  # also of no Docs at all
            if mask is not None:
                dY = dY * mask
            dY_LND = d_mix(ops, settings, dY, x_LND.shape)
            self._add_gradients(x_LND, dY_LND, share_L)

            def d_layers() -> LayerBatch:
                d_LND = scale_L[:, None, None] * dY_LND
                if settings.layer_norm:
                    d_LND = d_normalize(ops, layers.values, x_LND, d_LND)
                return LayerBatch(d_LND, layers.lengths)

            return d_layers

        return layers.split(Y), backprop

    def _add_gradients(self, x_LND: Any, dY_LND: Any, share_L: Any) -> None:
        gamma_1: Any = self.get_param("gamma")
        # d loss / d share of each layer, before scaling by gamma.
        d_share_L = self.ops.xp.einsum("lnd,lnd->l", x_LND, dY_LND)
        total = (share_L * d_share_L).sum()
        self.inc_grad("gamma", total.reshape(1))
        if self.settings.is_learned:
            self.inc_grad("W", gamma_1 * share_L * (d_share_L - total))

    def add_penalty(self) -> None:
        """Add the gradient of l2 * |W|^2; once a backward pass."""
        if self.settings.is_learned and self.settings.l2:
            W: Any = self.get_param("W")
            self.inc_grad("W", 2 * self.settings.l2 * W)
