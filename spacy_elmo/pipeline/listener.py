"""A listener: it gives a component the layers of a shared biLM, in a mix of its own.

Every listener has softmax weights W and a gamma of its own, which are trained and saved
with its component. In the backward pass it only adds to the gradient of its upstream.
The upstream runs its own backward pass when it finishes its update, so it makes no
difference which listeners are frozen or disabled.
"""

import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Model
from thinc.layers.residual import init as init_residual
from thinc.types import Floats2d

from ..errors import Errors, Warnings
from ..machine import default_settings
from .encoder import shim_of
from .layers import components_of
from .mix import MixModel
from .settings import ListenerSettings

if TYPE_CHECKING:
    from .component import Elmo

# Attribute that is saved with a listener: the fingerprint of the biLM that its mix was
# trained with, or nothing where it is not known.
TRAINED_WITH = "trained_with"


class ElmoListener(MixModel):
    """Model[list[Doc], list[Floats2d]]: the upstream's layers in a mix of its own."""

    def __init__(
        self,
        upstream_name: str,
        width: int | None = None,
        settings: ListenerSettings | None = None,
    ) -> None:
        settings = settings or ListenerSettings()
        super().__init__("elmo-listener", _forward, settings, init=_init)
        if width is not None:
            self.set_dim("nO", width)
        self.attrs[TRAINED_WITH] = ""
        self.upstream_name = upstream_name
        self.width = width
        # Weak, or a component sourced into another pipeline would keep this one alive.
        self._upstream: Callable[[], Elmo | None] = _nothing  # of its own pipeline
        self.asked: Callable[[], Elmo | None] = _nothing  # in its last update
        # The list of Docs that it was initialised with: Thinc infers the shapes of the
        # layers above from a prediction on the very same list.
        self.sample: Any = None
        self._warned_of = ""

    @property
    def n_layers(self) -> int:
        """Layers of the upstream; without one, of the trained mix."""
        return self.upstream.n_layers if self.upstream else self.n_trained

    @property
    def upstream(self) -> "Elmo | None":
        """The component that it listens to, as long as that is there."""
        return self._upstream()

    def connect(self, upstream: "Elmo") -> None:
        """Listen to a component from now on. Raises as `fit`, unless the sizes of the
        component can still change."""
        previous = self.upstream
        if previous not in (None, upstream) and previous.has_weights:
            self.record_fingerprint(previous)
        try:
            self.check_weights(upstream)
        except ValueError:
            if shim_of(upstream.model).sizes_are_fixed:
                raise
        self._upstream = weakref.ref(upstream)

    def fit(self, upstream: "Elmo") -> None:
        """Take the sizes of a component.

        Raises:
            ValueError: [EL054] The width is another one. [EL060] The mix was trained
                with another number of layers, or width. [EL083] It is of a layer that
                there is not.
        """
        name, n_layers = upstream.name, upstream.n_layers
        width = self.settings.width(n_layers, upstream.width)
        if self.width not in (None, width):
            raise Errors.EL054(found=self.width, expected=width, name=name)
        if self.settings.is_weighted:
            has_params = self.n_trained == n_layers
        else:
            has_params = bool(self.has_param("gamma"))
        before = self._dims["nO"]
        fits = has_params and before in (None, width)
        if not fits and self.is_trained:
            mix = f"{self.n_trained} layers" if self.n_trained else "a fixed mix"
            found = f"{mix} (vectors of width {before})"
            expected = f"{n_layers} layers (width {width})"
            raise Errors.EL060(found=found, expected=expected, name=name)
        self._dims["nO"] = width
        if not fits:
            self.set_up(n_layers)

    def upstream_of(self, docs: list[Doc]) -> "Elmo | None":
        """Return the component that has read these Docs, perhaps one of the pipeline
        that it was sourced from; or else the last connected."""
        upstream = self.upstream
        readers = components_of(docs[0]) if docs else []
        if upstream in readers:
            return upstream
        return next((each for each in readers if self in each.linked), upstream)

    def end_update(self) -> None:
        """Tell the upstream that the component has finished its update."""
        if (upstream := self.asked()) is not None:
            upstream.end_update(self)

    def record_fingerprint(self, upstream: "Elmo") -> None:
        """Record the weights that its mix was trained with, unless they are known."""
        self.attrs[TRAINED_WITH] = self.attrs[TRAINED_WITH] or upstream.fingerprint()

    def check_weights(self, upstream: "Elmo") -> None:
        """Warn [ELW20], once, of a mix that was trained with other weights. Raises as
        `fit`."""
        self.fit(upstream)
        known = self.attrs[TRAINED_WITH]
        if not (known and self.is_trained and upstream.has_weights):
            return
        if known not in (self._warned_of, upstream.fingerprint()):
            self._warned_of = known
            warnings.warn(Warnings.ELW20(name=upstream.name), stacklevel=2)

    def _copy(self, seen: dict[int, Any] | None = None) -> "ElmoListener":
        # Thinc's own copy is a plain Model, which nobody would link again.
        copied = ElmoListener(self.upstream_name, self.width, self.settings)
        copied.copy_mix(self)
        copied._dims["nO"] = self._dims["nO"]
        copied.attrs.update(self.attrs)
        copied._upstream = self._upstream
        return copied

    __deepcopy__ = _copy

    def __getstate__(self) -> Any:
        # The upstream connects its listeners again when it is unpickled itself.
        state: Any = super().__getstate__()  # its dictionary, and Thinc's slots
        unlinked = {"_upstream": _nothing, "asked": _nothing, "sample": None}
        return {**state[0], **unlinked}, state[1]


@registry.architectures("spacy-elmo.ElmoListener.v1")
def build_listener(
    *,
    width: int | None = None,
    upstream: str = "*",
    mix: str | int = "learned",
    mix_weights: Any = None,
    layer_norm: bool = False,
    gamma: float = 1.0,
    dropout: float = 0.0,
    l2: float = 0.0,
) -> Model[list[Doc], list[Floats2d]]:
    """Return the vectors of an `elmo` component earlier in the pipeline, as a tok2vec.

    Args:
        width: Of the vectors (2 * projection_dim of the biLM, times the layers if they
            are concatenated); None takes what is there.
        upstream: Name of the `elmo` component, "*" for any.
        mix: This and the settings below: see `ListenerSettings`.
        mix_weights: Softmax weights to begin with, one a layer.
        layer_norm: Whether layers are normalized before.
        gamma: Scale of the mix, to begin with.
        dropout: On the mix, while training.
        l2: Draws a learned mix towards the average.

    Raises:
        ValueError: [EL085] for a setting that means nothing.
    """
    settings = ListenerSettings(mix, mix_weights, layer_norm, gamma, dropout, l2)
    return ElmoListener(upstream, width, settings)


def _nothing() -> None:
    return None


def _init(model: ElmoListener, X: Any = None, Y: Any = None) -> None:
    if model.upstream is not None:
        model.upstream.initialize_for(model)
        model.fit(model.upstream)
        model.set_up(model.upstream.n_layers)
        model.attrs[TRAINED_WITH] = ""
    model.sample = X


@default_settings()
def _forward(
    model: ElmoListener, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    upstream = model.upstream_of(docs)
    if upstream is None:
        raise Errors.EL053(upstream=model.upstream_name)
    is_sample, model.sample = docs is model.sample, None
    if is_sample and not (is_train or upstream.finds_weights):
        width = model.get_dim("nO")
        return [model.ops.alloc2f(len(doc), width) for doc in docs], lambda dY: []
    vectors: list[Floats2d] = []
    backprops: list[tuple[list[Doc], Any]] = []
    for layers in upstream.layers_for(model, docs, is_train):
        some = docs[len(vectors) : len(vectors) + len(layers)]
        mixed, backprop_mix = model.mix(layers, is_train)
        vectors += mixed
        if is_train:  # else the layers are let go of, which take more room than a mix
            backprops.append((some, backprop_mix))
    if is_train:
        model.attrs[TRAINED_WITH] = ""
        model.asked = weakref.ref(upstream)

    @default_settings()
    def backprop(dY: list[Floats2d]) -> list[Doc]:
        start = 0
        for some, backprop_mix in backprops:
            stop = start + len(some)
            upstream.add_gradient(some, backprop_mix(dY[start:stop]))
            start = stop
        model.add_penalty()
        return []

    return vectors, backprop


def infer_widths_of_residuals(model: Model[Any, Any]) -> None:
    """Have residual connections take their width from what they read.

    Thinc takes it from the model's output, if it is not known when the model is built
    (as in spaCy's entity linker on a listener without a width).
    """
    for node in model.walk():
        if node.init is init_residual:
            node.init = _init_residual


def _init_residual(model: Model[Any, Any], X: Any = None, Y: Any = None) -> None:
    init_residual(model, X, Y if X is None else X)
