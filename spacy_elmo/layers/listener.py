"""What a downstream component reads the shared biLM through, with its own mix.

Every listener holds softmax weights W and a gamma of its own, trained and saved with
its component. In the backward pass it only adds to the upstream's gradient; the
upstream runs its own backward pass when it finishes its update, so it makes no
difference which listeners are frozen or disabled.
"""

import weakref
from collections.abc import Callable
from typing import Any, Protocol

from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Model
from thinc.types import Floats2d, Floats3d

from ..errors import Errors
from .encoder import docs_by_tokens
from .mix import MixSettings, is_trained, mix_with_params, set_up


class Upstream(Protocol):
    """What a listener asks of the component it listens to."""

    name: str

    @property
    def width(self) -> int: ...
    @property
    def n_layers(self) -> int: ...
    def layers_for(self, listener: Model, docs: list[Doc]) -> list[Floats3d]: ...
    def learns_from(self, doc: Doc) -> bool: ...
    def add_gradient(self, doc: Doc, d_layers: Floats3d) -> None: ...


class ElmoListener(Model):
    """Model[List[Doc], List[Floats2d]]: the upstream's layers in a mix of its own.

    upstream_name: name of the component, "*" for any. width: of the vectors, None to
    take what there is. settings: of the mix.
    """

    def __init__(
        self,
        upstream_name: str,
        width: int | None = None,
        settings: MixSettings | None = None,
    ) -> None:
        super().__init__(
            "elmo-listener",
            _forward,
            init=_init,
            dims={"nO": width},
            params={"W": None, "gamma": None},
        )
        self.upstream_name = upstream_name
        self.width = width
        self.settings = settings or MixSettings()
        self._upstream: Callable[[], Upstream | None] = _nothing

    @property
    def n_layers(self) -> int:
        """Those of the upstream, or, without one, of the trained mix."""
        upstream = self.upstream
        return self.n_trained if upstream is None else upstream.n_layers

    @property
    def n_trained(self) -> int:
        """Layers that it has weights for, 0 if its mix is fixed."""
        return len(self.get_param("W")) if self.has_param("W") else 0

    @property
    def upstream(self) -> Upstream | None:
        return self._upstream()

    def connect(self, upstream: Upstream) -> None:
        """Listen to a component from now on.

        Raises ValueError [EL054] if the widths differ, [EL060] if the listener was
        trained with another number of layers or width, [EL083] if it mixes a layer
        that there is not.
        """
        width = self.settings.width(upstream.n_layers, upstream.width)
        if self.width is not None and self.width != width:
            raise ValueError(
                Errors.EL054.format(
                    found=self.width, expected=width, name=upstream.name
                )
            )
        before = self._dims["nO"]
        fits = self._has_params_for(upstream.n_layers) and before in (None, width)
        if not fits and is_trained(self, self.settings):
            found = f"{self.n_trained} layers" if self.n_trained else "a fixed mix"
            raise ValueError(
                Errors.EL060.format(
                    found=f"{found} (vectors of width {before})",
                    expected=f"{upstream.n_layers} layers (width {width})",
                    name=upstream.name,
                )
            )
        self._dims["nO"] = width
        if not fits:
            set_up(self, self.settings, upstream.n_layers)
        # Weak, or a component sourced into another pipeline would keep this one alive.
        self._upstream = weakref.ref(upstream)

    def _has_params_for(self, n_layers: int) -> bool:
        if self.settings.is_learned:
            return bool(self.has_param("W")) and len(self.get_param("W")) == n_layers
        return bool(self.has_param("gamma"))

    def _copy(self, seen: dict | None = None) -> "ElmoListener":
        # Thinc's own copy is a plain Model, which nobody would link again.
        copied = ElmoListener(self.upstream_name, self.width, self.settings)
        for name in self.param_names:
            if self.has_param(name):
                copied.set_param(name, self.get_param(name).copy())
        copied._dims["nO"] = self._dims["nO"]
        copied._upstream = self._upstream
        return copied

    def __deepcopy__(self, memo: dict) -> "ElmoListener":
        return self._copy()

    def __getstate__(self) -> dict[str, Any]:
        # The upstream connects its listeners again when it is unpickled itself.
        slots = {name: getattr(self, name) for name in Model.__slots__}
        return {**slots, **self.__dict__, "_upstream": _nothing}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


@registry.architectures("spacy-elmo.ElmoListener.v1")
def build_listener(
    width: int | None = None,
    upstream: str = "*",
    mix: str | int = "learned",
    layer_norm: bool = False,
    dropout: float = 0.0,
    l2: float = 0.0,
    gamma: float = 1.0,
) -> Model[list[Doc], list[Floats2d]]:
    """Vectors of an `elmo` component earlier in the pipeline, as a tok2vec.

    width: of the vectors (2 * projection_dim of the biLM, times the layers if they are
        concatenated); null takes what is there.
    upstream: name of the `elmo` component, "*" for any.
    mix, layer_norm, dropout, l2, gamma: as in `MixSettings`.
    Raises ValueError [EL085].
    """
    return ElmoListener(
        upstream, width, MixSettings(mix, layer_norm, dropout, l2, gamma)
    )


def _nothing() -> None:
    return None


def _no_gradient(dY: list[Floats2d]) -> list:
    return []


def _init(model: ElmoListener, X: Any = None, Y: Any = None) -> None:
    if model.upstream is not None and not model.has_param("gamma"):
        set_up(model, model.settings, model.upstream.n_layers)


def _forward(
    model: ElmoListener, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list]]:
    upstream, settings = model.upstream, model.settings
    if upstream is None:
        raise ValueError(Errors.EL053.format(upstream=model.upstream_name))
    if not is_train:  # a group at a time: layers take several times their mix's room
        found: list[Floats2d] = []
        for group in docs_by_tokens(docs, len(docs)):
            layers = upstream.layers_for(model, group)
            n_layers = upstream.n_layers
            found += mix_with_params(model, settings, layers, n_layers, False)[0]
        return found, _no_gradient
    layers = upstream.layers_for(model, docs)
    Y, backprop_mix = mix_with_params(model, settings, layers, upstream.n_layers, True)

    def backprop(dY: list[Floats2d]) -> list:
        d_layers = backprop_mix(dY)
        for d, doc in enumerate(docs):
            if upstream.learns_from(doc):
                upstream.add_gradient(doc, d_layers(d))
        return []

    return Y, backprop
