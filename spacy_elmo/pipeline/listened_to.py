"""Who listens to a component: the bookkeeping that `spacy.ty.ListenedToComponent` asks
for."""

import warnings
import weakref
from collections.abc import Callable
from typing import Any

from spacy.pipeline.tok2vec import Tok2Vec, Tok2VecListener
from thinc.api import Model
from thinc.layers.residual import init as init_residual

from ..errors import ElmoWarning, Warnings
from .listener import ElmoListener


class ListenedTo:
    """A part of a component that is an `Upstream` (see listener.py)."""

    name: str
    sets_tensor: bool  # `doc.tensor`, as spaCy's `tok2vec` does too
    when_linked: Callable[[], None] | None = None  # called once, in a pipeline
    _warned_of: frozenset[str] = frozenset()
    _asking: weakref.WeakSet[Model[Any, Any]]  # listeners that have asked for layers
    _linked: weakref.WeakSet[Model[Any, Any]]  # all that were ever connected

    @property
    def listener_map(self) -> dict[str, list[Model[Any, Any]]]:
        """Listeners of each component that has some. spaCy sets an empty one and has
        them found again, from here to the end, whenever the pipeline changes."""
        return self._listener_map

    @listener_map.setter
    def listener_map(self, found: dict[str, list[Model[Any, Any]]]) -> None:
        self._listener_map = found
        if self.when_linked is not None:
            self.when_linked()
            self.when_linked = None
        self._is_hidden = False  # from "*" listeners, by another that is nearer to them
        self._later_tok2vecs: set[str] = set()

    @property
    def listeners(self) -> list[Model[Any, Any]]:
        """The listeners of all components."""
        return [model for models in self.listener_map.values() for model in models]

    @property
    def connected(self) -> list[Model[Any, Any]]:
        """The listeners, and others that have asked for layers: spaCy does not list
        those of a disabled component that is enabled later, nor those of the pipeline
        that this component was sourced from."""
        others = [model for model in self._asking if model not in self.listeners]
        return [*self.listeners, *others]

    @property
    def linked(self) -> list[Any]:
        """The listeners of this component, in whatever pipeline: spaCy lists those of
        the pipeline alone that was changed last, if it was sourced into another."""
        return [model for model in self._linked if model.listens_to(self)]  # type: ignore[attr-defined]

    @property
    def listening_components(self) -> list[str]:
        """Names of the components that have listeners."""
        return list(self.listener_map)

    def add_listener(self, listener: Model[Any, Any], component_name: str) -> None:
        """Have a listener listen to this component; [EL054, EL060, EL083] if it does
        not fit."""
        previous = getattr(listener, "upstream", None)
        if previous is not None and previous is not self:
            for name in previous.listening_components:
                previous.remove_listener(listener, name)
        listener.connect(self)  # type: ignore[attr-defined]
        self._linked.add(listener)
        models = self.listener_map.setdefault(component_name, [])
        if listener not in models:
            models.append(listener)

    def remove_listener(self, listener: Model[Any, Any], component_name: str) -> bool:
        """Remove a listener of a component; return whether it had it."""
        self._asking.discard(listener)
        models = self.listener_map.pop(component_name, [])
        # Another list: spaCy goes through this one while it replaces listeners.
        rest = [model for model in models if model is not listener]
        if rest:
            self.listener_map[component_name] = rest
        return len(rest) < len(models)

    def find_listeners(self, component: Any) -> None:
        """Have the listeners in the model of a later component listen to this one, if
        they name it or none."""
        if isinstance(component, ListenedTo):
            self._is_hidden = True
        names = (self.name,) if self._is_hidden else ("*", self.name)
        model = getattr(component, "model", None)
        for node in model.walk(order="dfs_pre") if isinstance(model, Model) else ():
            if isinstance(node, ElmoListener) and node.upstream_name in names:
                self.add_listener(node, component.name)
                _infer_widths_of_residuals(component.model)
            if isinstance(node, Tok2VecListener) and self.sets_tensor:
                # At prediction it reads the doc.tensor of a tok2vec, perhaps of one
                # that stands before this component.
                later, wanted = self._later_tok2vecs, node.upstream_name
                if not (later if wanted == "*" else wanted in later):
                    self._warn_once(Warnings.ELW22, component.name)
        if isinstance(component, Tok2Vec):
            self._later_tok2vecs.add(component.name)
            if self.sets_tensor:
                self._warn_once(Warnings.ELW21, component.name)

    def _warn_once(self, kind: type[ElmoWarning], other: str) -> None:
        warning = kind(name=self.name, other=other)
        if str(warning) not in self._warned_of:
            self._warned_of |= {str(warning)}
            warnings.warn(warning, stacklevel=2)


def _infer_widths_of_residuals(model: Model[Any, Any]) -> None:
    """Have residual connections take their width from what they read.

    Thinc takes it from the model's output, if it is not known when the model is built
    (as in spaCy's entity linker on a listener without a width).
    """
    for node in model.walk():
        if node.init is init_residual:
            node.init = _init_residual


def _init_residual(model: Model[Any, Any], X: Any = None, Y: Any = None) -> None:
    init_residual(model, X, Y if X is None else X)
