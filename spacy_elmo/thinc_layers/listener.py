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
from .mix import mix_with_params, set_up


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
    take the upstream's.
    """

    def __init__(self, upstream_name: str, width: int | None) -> None:
        super().__init__(
            "elmo-listener",
            _forward,
            init=_init,
            dims={"nO": width},
            params={"W": None, "gamma": None},
        )
        self.upstream_name = upstream_name
        self._upstream: Callable[[], Upstream | None] = _nothing

    @property
    def upstream(self) -> Upstream | None:
        return self._upstream()

    def connect(self, upstream: Upstream) -> None:
        """Raises ValueError [EL054] if the widths differ."""
        if self.has_dim("nO") and self.get_dim("nO") != upstream.width:
            raise ValueError(
                Errors.EL054.format(
                    found=self.get_dim("nO"),
                    expected=upstream.width,
                    name=upstream.name,
                )
            )
        self.set_dim("nO", upstream.width)
        set_up(self, upstream.n_layers)
        # Weak, or a component sourced into another pipeline would keep this one alive.
        self._upstream = weakref.ref(upstream)

    def _copy(self, seen: dict | None = None) -> "ElmoListener":
        # Thinc's own copy is a plain Model, which nobody would link again.
        copied = ElmoListener(self.upstream_name, self.maybe_get_dim("nO"))
        for name in self.param_names:
            if self.has_param(name):
                copied.set_param(name, self.get_param(name).copy())
        copied._upstream = self._upstream
        return copied

    def __getstate__(self) -> dict[str, Any]:
        slots = {name: getattr(self, name) for name in Model.__slots__}
        # Weak references can't be pickled: the component itself goes along.
        return {**slots, **self.__dict__, "_upstream": self.upstream}

    def __setstate__(self, state: dict[str, Any]) -> None:
        upstream = state.pop("_upstream")
        for name, value in state.items():
            setattr(self, name, value)
        self._upstream = weakref.ref(upstream) if upstream is not None else _nothing


@registry.architectures("spacy-elmo.ElmoListener.v1")
def build_listener(
    width: int | None = None, upstream: str = "*"
) -> Model[list[Doc], list[Floats2d]]:
    """Vectors of an `elmo` component earlier in the pipeline, as a tok2vec.

    width: of the vectors (2 * projection_dim of the biLM); null takes what is there.
    upstream: name of the `elmo` component, "*" for any.
    """
    return ElmoListener(upstream, width)


def _nothing() -> None:
    return None


def _init(model: ElmoListener, X: Any = None, Y: Any = None) -> None:
    if model.upstream is not None:
        set_up(model, model.upstream.n_layers)


def _forward(
    model: ElmoListener, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list]]:
    upstream = model.upstream
    if upstream is None:
        raise ValueError(Errors.EL053.format(upstream=model.upstream_name))
    Y, backprop_mix = mix_with_params(model, upstream.layers_for(model, docs))

    def backprop(dY: list[Floats2d]) -> list:
        d_layers = backprop_mix(dY)
        for d, doc in enumerate(docs):
            if upstream.learns_from(doc):
                upstream.add_gradient(doc, d_layers(d))
        return []

    return Y, backprop
