"""`doc._.elmo`: the layers of a Doc, kept beside it and gone with it.

Nothing is written into the Doc but `doc.tensor`: layers live in weak dictionaries of
the component, so they never travel in `user_data`, to other processes or into files.
"""

import weakref
from typing import Any, NamedTuple

from spacy.tokens import Doc
from thinc.types import Floats3d

from ..errors import Errors


class _Reader(NamedTuple):
    """A component that has read a Doc, and whether its vectors are in `doc.tensor`."""

    component: "weakref.ref[Any]"
    owns_tensor: bool


# The components that each Doc went through, by name, the last one at the end.
_components: "weakref.WeakKeyDictionary[Doc, dict[str, _Reader]]"
_components = weakref.WeakKeyDictionary()


def remember(doc: Doc, component: Any) -> None:
    """Let `doc._.elmo` ask a component, which the Doc went through."""
    known = _components.setdefault(doc, {})
    known.pop(component.name, None)  # so that it counts as the last
    known[component.name] = _Reader(weakref.ref(component), component.owns_tensor)


def vectors_of(doc: Doc) -> Any:
    """Return `doc.tensor`, or, if a stock `tok2vec` owns that, the vectors (T, D) that
    the last `elmo` component would have written there. Raises ValueError [EL055] if the
    component is gone."""
    known = _components.get(doc, {})
    if not known or any(reader.owns_tensor for reader in known.values()):
        return doc.tensor
    return _component(doc, next(reversed(known))).vectors_of(doc)


def _component(doc: Doc, name: str) -> Any:
    reader = _components.get(doc, {}).get(name)
    component = reader.component() if reader else None
    if component is None:
        raise ValueError(Errors.EL055.format(name=name))
    return component


class ElmoLayers:
    """What `doc._.elmo` gives."""

    def __init__(self, doc: Doc) -> None:
        self._doc = doc

    @property
    def layers(self) -> Floats3d:
        """Layers of the last `elmo` component that the Doc went through, float32
        (L+1, T, D): the token layer first, row i for token i, zeros for white space.

        Raises:
            ValueError: [EL055] if no component here has seen the Doc.
        """
        return self[next(reversed(_components.get(self._doc, {})), "elmo")]

    def __getitem__(self, name: str) -> Floats3d:
        """Return the layers by the component of a name.

        Raises:
            ValueError: [EL055] if no such component here has seen the Doc.
        """
        return _component(self._doc, name).layers_of(self._doc)


if not Doc.has_extension("elmo"):
    Doc.set_extension("elmo", getter=ElmoLayers)
