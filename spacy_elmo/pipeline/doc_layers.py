"""`doc._.elmo`: the layers of a Doc, kept beside it and gone with it.

Nothing is written into the Doc but `doc.tensor`: layers live in weak dictionaries of
the component, so they never travel in `user_data`, to other processes or into files.
"""

import weakref
from typing import Any

from spacy.tokens import Doc
from thinc.types import Floats3d

from ..errors import Errors

# The components that each Doc went through, by name, the last one at the end.
_components: "weakref.WeakKeyDictionary[Doc, dict[str, weakref.ref[Any]]]"
_components = weakref.WeakKeyDictionary()


def remember(doc: Doc, component: Any) -> None:
    """Let `doc._.elmo` ask a component, which the Doc went through."""
    known = _components.setdefault(doc, {})
    known.pop(component.name, None)  # so that it counts as the last
    known[component.name] = weakref.ref(component)


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
        reference = _components.get(self._doc, {}).get(name)
        component = reference() if reference else None
        if component is None:
            raise ValueError(Errors.EL055.format(name=name))
        return component.layers_of(self._doc)


if not Doc.has_extension("elmo"):
    Doc.set_extension("elmo", getter=ElmoLayers)
