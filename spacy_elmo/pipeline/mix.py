"""gamma * sum_l s_l h_l (paper, equation 1): one vector a token from the biLM's layers.

The shares s_l of the layers are softmax(w) with trained weights w, or fixed: all the
same, or one layer alone. Or there is no sum, and the layers stand side by side.

Shapes: L1 layers (the token layer included), N tokens of a batch of Docs, D width.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from spacy.language import Language
from thinc.api import Model, Ops, to_numpy
from thinc.shims.shim import Shim
from thinc.types import Floats2d

from ..errors import Errors
from ..files import new_figure, save_figure, sha256_of
from .encoder import LayerBatch
from .settings import ListenerSettings, MixSettings
from .shim import SAVED, SAVED_AS

EPSILON = 1e-5  # of the layer normalisation

# From the gradient of each Doc's mix to a function that computes the gradient of the
# layers. It is not called if the biLM does not learn.
MixBackprop = Callable[[Sequence[Floats2d]], Callable[[], LayerBatch]]


class MixModel(Model[Any, Any]):
    """Model[list[Doc], list[Floats2d]] with a mix of its own: trained weights W and
    gamma. The arguments except the settings are those of `Model`."""

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any],
        settings: ListenerSettings,
        **others: Any,
    ) -> None:
        params: Any = {"W": None, "gamma": None}
        super().__init__(name, forward, dims={"nO": None}, params=params, **others)
        self.shims.append(MixChecksum(self))
        self.settings = settings

    def end_update(self) -> None:
        """Do what is due when the component has finished its update: nothing here."""

    @property
    def n_layers(self) -> int:
        """Layers that it mixes, 0 if that is not known."""
        return self.n_trained

    @property
    def n_trained(self) -> int:
        """Layers that it has weights for, 0 if its mix is fixed."""
        return len(self.get_param("W")) if self.has_param("W") else 0

    def set_up(self, n_layers: int) -> None:
        """Begin with a mix of n_layers that is not trained."""
        if self.settings.is_weighted:
            first = self.settings.first_weights(n_layers)
            self.set_param("W", self.ops.asarray1f(first))
        self.set_param("gamma", self.ops.asarray1f([self.settings.gamma]))

    @property
    def is_trained(self) -> bool:
        """Whether the mix differs from the one that it began with."""
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
        """Return the mix of each Doc, (T, D), or (T, L1 * D) for "concat", and the
        backward pass, which adds to the gradients of W and gamma."""
        ops: Any = self.ops
        settings = self.settings
        layers.check()
        gamma_1: Any = self.get_param("gamma")
        share_L = self.shares(len(layers.values))
        scale_L = gamma_1 * share_L
        x_LND: Any = layers.values
        if settings.layer_norm:
            x_LND = normalize(ops, x_LND)
        Y = _mix(ops, settings, x_LND, scale_L)
        mask: Any = None
        if is_train and settings.dropout:
            mask = ops.get_dropout_mask(Y.shape, settings.dropout)
            Y = Y * mask

        def backprop(dY_docs: Sequence[Any]) -> Callable[[], LayerBatch]:
            dY = ops.xp.concatenate([*dY_docs, Y[:0]])  # also of no Docs at all
            if mask is not None:
                dY = dY * mask
            if settings.mix == "concat":
                n_layers, n_tokens, width = x_LND.shape
                dY_LND = dY.reshape(n_tokens, n_layers, width).transpose(1, 0, 2)
            else:  # the gradient of a sum is the same for each layer
                dY_LND = ops.xp.broadcast_to(dY, x_LND.shape)
            self._add_gradients(x_LND, dY_LND, share_L)

            def d_layers() -> LayerBatch:
                d_LND = scale_L[:, None, None] * dY_LND
                if settings.layer_norm:
                    d_LND = _d_normalize(ops, layers.values, x_LND, d_LND)
                return LayerBatch(d_LND, layers.lengths)

            return d_layers

        return layers.split(Y), backprop

    def _add_gradients(self, x_LND: Any, dY_LND: Any, share_L: Any) -> None:
        # d loss / d share of each layer, before scaling by gamma.
        d_share_L = self.ops.xp.einsum("lnd,lnd->l", x_LND, dY_LND)
        total = (share_L * d_share_L).sum()
        self.inc_grad("gamma", total.reshape(1))
        if self.settings.is_weighted:
            gamma_1: Any = self.get_param("gamma")
            self.inc_grad("W", gamma_1 * share_L * (d_share_L - total))

    def add_penalty(self) -> None:
        """Add the gradient of l2 * |W|^2; once a backward pass."""
        if self.settings.is_weighted and self.settings.l2:
            W: Any = self.get_param("W")
            self.inc_grad("W", 2 * self.settings.l2 * W)


class MixChecksum(Shim):
    """A checksum that is saved with a mix, and compared when the mix is loaded.

    The shim also tells the mix that its component has finished an update. Of the parts
    of a model Thinc tells only shims.
    """

    def to_bytes(self) -> bytes:
        """Return the checksum of the mix."""
        mix = self._model
        found = {"name": mix.name, **mix.attrs}
        found |= {
            name: mix.get_dim(name) for name in mix.dim_names if mix.has_dim(name)
        }
        for name in filter(mix.has_param, mix.param_names):
            found[name] = to_numpy(mix.get_param(name)).tolist()
        return sha256_of(json.dumps(found, sort_keys=True)).encode()

    def from_bytes(self, data: bytes) -> "MixChecksum":
        """Raise ValueError [EL002] if the mix is not the one that was saved."""
        if data != self.to_bytes():
            problem = f"the mix of '{self._model.name}' was changed after it was saved"
            raise Errors.EL002(path=SAVED, format=SAVED_AS, error=problem)
        return self

    def finish_update(self, optimizer: Any) -> None:
        """End the update of the mix."""
        self._model.end_update()

    def to_device(self, device_type: str, device_id: int) -> None:
        """Do nothing."""


def shares(ops: Ops, settings: MixSettings, weights_L: Any) -> Any:
    """Return the share s of each layer. Only a learned mix looks at its softmax
    weights. The shares of "concat" are 1, since nothing is added up."""
    if settings.is_weighted:
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


def first_mix(ops: Ops, settings: MixSettings, layers_LND: Any) -> Any:
    """Return the mix that the settings begin with, which nothing has trained."""
    if settings.layer_norm:
        layers_LND = normalize(ops, layers_LND)
    scale_L = _first_scale(ops, settings, len(layers_LND))
    return _mix(ops, settings, layers_LND, scale_L)


@lru_cache(maxsize=16)
def _first_scale(ops: Ops, settings: MixSettings, n_layers: int) -> Any:
    """Return the scale of each layer, (L1,), which is copied to a GPU once."""
    first_L = ops.asarray1f(settings.first_weights(n_layers))
    return settings.gamma * shares(ops, settings, first_L)


def _mix(ops: Ops, settings: MixSettings, layers_LND: Any, scale_L: Any) -> Any:
    """Return scale_L * layers_LND, added up over the layers, (N, D), or, for "concat",
    side by side, (N, L1 * D)."""
    if settings.mix != "concat":
        return ops.xp.einsum("l,lnd->nd", scale_L, layers_LND)
    Y_NLD = ops.xp.einsum("l,lnd->nld", scale_L, layers_LND)
    n_tokens, n_layers, width = Y_NLD.shape
    return Y_NLD.reshape(n_tokens, n_layers * width)


def normalize(ops: Ops, layers_LND: Any) -> Any:
    """Return vectors of mean 0 and variance 1."""
    centered = layers_LND - layers_LND.mean(2, keepdims=True)
    return centered / _deviation(ops, layers_LND)


def _d_normalize(ops: Ops, layers_LND: Any, normalized_LND: Any, dY_LND: Any) -> Any:
    along = normalized_LND * (dY_LND * normalized_LND).mean(2, keepdims=True)
    centered = dY_LND - dY_LND.mean(2, keepdims=True)
    return (centered - along) / _deviation(ops, layers_LND)


def _deviation(ops: Ops, layers_LND: Any) -> Any:
    return ops.xp.sqrt(layers_LND.var(2, keepdims=True) + EPSILON)


# -- the mixes that were learned (paper, figure 2) -----------------------------------


def nodes_of(component: Any) -> Iterable[Model[Any, Any]]:
    """Return all layers of a component's model, none if it has no model. Depth first:
    what a concatenation begins with stands below what it ends with."""
    model = getattr(component, "model", None)
    return model.walk(order="dfs_pre") if isinstance(model, Model) else ()


@dataclass(frozen=True)
class LearnedMix:
    """The mix of one listener."""

    component: str  # its name
    place: int  # number of the listener in its component, from the input up
    kind: str | int  # as in `MixSettings.mix`
    gamma: float
    shares: list[float]  # of each layer, the token layer first
    layer_norm: bool  # whether each layer has mean 0 and variance 1 before


def learned_mixes(nlp: Language) -> list[LearnedMix]:
    """Return the mix of every listener, in the order of the pipeline.

    Raises:
        ValueError: [EL090] if there is none, [EL053] if one has no upstream.
    """
    found = []
    for name, component in nlp.components:
        mixes = [node for node in nodes_of(component) if isinstance(node, MixModel)]
        for place, mix in enumerate(mixes, start=1):
            if mix.has_param("gamma"):
                if not mix.n_layers:  # a fixed mix, and the layers are gone
                    upstream = getattr(mix, "upstream_name", "*")
                    raise Errors.EL053(upstream=upstream)
                row = [float(share) for share in mix.shares(mix.n_layers)]
                gamma = float(mix.get_param("gamma")[0])
                kind, norm = mix.settings.mix, mix.settings.layer_norm
                found.append(LearnedMix(name, place, kind, gamma, row, norm))
    if not found:
        raise Errors.EL090()
    return found


def draw_mixes(mixes: Sequence[LearnedMix], output: Path) -> None:
    """Stacked bars, one a listener. Raises as `new_figure` and `save_figure`."""
    figure = new_figure(1.6 + 1.1 * len(mixes), 3.6, output)
    axes = figure.subplots()
    names = [f"{mix.component} {mix.place}\ngamma {mix.gamma:.2f}" for mix in mixes]
    positions = range(len(mixes))
    for layer in range(max(len(mix.shares) for mix in mixes)):
        heights = [sum(mix.shares[layer : layer + 1]) for mix in mixes]  # 0 above
        below = [sum(mix.shares[:layer]) for mix in mixes]
        label = f"layer {layer}" if layer else "token layer"
        axes.bar(positions, heights, bottom=below, label=label, width=0.6)
    axes.set_xticks(positions, names)
    axes.set_ylabel("share of the layer")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    save_figure(figure, output)
