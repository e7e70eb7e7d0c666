"""`doc._.elmo`: the layers of a Doc, kept beside it and gone with it.

Nothing is written into the Doc but `doc.tensor`: layers live in weak dictionaries of
the component, so they never travel in `user_data`, to other processes or into files.
"""

import weakref
from typing import Protocol

from spacy.tokens import Doc
from thinc.types import Floats3d

from ..errors import Errors


class Component(Protocol):
    """Has the layers of the Docs that went through it."""

    name: str

    def layers_of(self, doc: Doc) -> Floats3d:
        """Return the layers of a Doc, (L+1, T, D)."""


_components: "weakref.WeakKeyDictionary[Doc, dict[str, weakref.ref[Component]]]"
_components = weakref.WeakKeyDictionary()


def remember(doc: Doc, component: Component) -> None:
    """Let `doc._.elmo` ask a component, which the Doc went through."""
    known = _components.setdefault(doc, {})
    known.pop(component.name, None)  # so that it counts as the last
    known[component.name] = weakref.ref(component)


class ElmoLayers:
    """What `doc._.elmo` gives.

    Args:
        doc: Whose layers they are.
    """

    def __init__(self, doc: Doc) -> None:
        self._doc = doc

    @property
    def layers(self) -> Floats3d:
        """Layers of the last `elmo` component that the Doc went through, float32
        (L+1, T, D): the token layer first, row i for token i, zeros for white space.

        Raises:
            ValueError: [EL055] if no component here has seen the Doc.
        """
        return self._component(None).layers_of(self._doc)

    def __getitem__(self, name: str) -> Floats3d:
        """Return the layers by the component of a name.

        Raises:
            ValueError: [EL055] if no such component here has seen the Doc.
        """
        return self._component(name).layers_of(self._doc)

    def _component(self, name: str | None) -> Component:
        known = _components.get(self._doc, {})
        reference = known.get(name) if name else next(reversed(known.values()), None)
        component = reference() if reference else None
        if component is None:
            raise ValueError(Errors.EL055.format(name=name or "elmo"))
        return component


def get_elmo(doc: Doc) -> ElmoLayers:
    """Return what `doc._.elmo` gives."""
    return ElmoLayers(doc)


if not Doc.has_extension("elmo"):
    Doc.set_extension("elmo", getter=get_elmo)
