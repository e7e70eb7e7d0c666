"""`doc._.elmo`: the layers of a Doc, kept beside it and gone with it.

Nothing is written into the Doc but `doc.tensor`: layers live in weak dictionaries of
the component, so they never travel in `user_data`, to other processes or into files.
"""

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spacy.tokens import Doc
from thinc.types import Floats3d

from .errors import Errors

if TYPE_CHECKING:
    from .pipeline import Elmo


@dataclass
class Entry:
    """What a component knows of one Doc.

    pieces: the token indices of each sentence, as the biLM read them.
    layers: (L+1, T, D), or None once released: they are computed anew when asked for.
    waiting: ids of the listeners that have yet to read the layers.
    """

    pieces: list[Any]
    layers: Floats3d | None
    waiting: set[int]


class LayerStore:
    """Entries of one component, which hold at most max_bytes of layers: beyond it the
    oldest are released."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._entries: weakref.WeakKeyDictionary[Doc, Entry] = (
            weakref.WeakKeyDictionary()
        )

    def __len__(self) -> int:
        return len(self._entries)

    def __setitem__(self, doc: Doc, entry: Entry) -> None:
        self._entries.pop(doc, None)  # so that it counts as the newest
        self._entries[doc] = entry

    def get(self, doc: Doc) -> Entry | None:
        return self._entries.get(doc)

    @property
    def held_bytes(self) -> int:
        return sum(entry.layers.nbytes for entry in self._holding())

    def trim(self) -> None:
        excess = self.held_bytes - self.max_bytes
        for entry in list(self._holding()):
            if excess <= 0:
                break
            excess -= entry.layers.nbytes
            entry.layers = None

    def _holding(self) -> Iterator[Any]:
        return (entry for entry in self._entries.values() if entry.layers is not None)


_components: "weakref.WeakKeyDictionary[Doc, dict[str, weakref.ref[Elmo]]]"
_components = weakref.WeakKeyDictionary()


def remember(doc: Doc, component: "Elmo") -> None:
    _components.setdefault(doc, {})[component.name] = weakref.ref(component)


class ElmoLayers:
    """What `doc._.elmo` gives."""

    def __init__(self, doc: Doc) -> None:
        self._doc = doc

    @property
    def layers(self) -> Floats3d:
        """float32 (L+1, T, D), of the last `elmo` component that the Doc went through:
        the token layer first, row i for token i, rows of zeros for white space."""
        return self._component(None).layers_of(self._doc)

    def __getitem__(self, name: str) -> Floats3d:
        """Layers by the component of a name."""
        return self._component(name).layers_of(self._doc)

    def _component(self, name: str | None) -> "Elmo":
        """Raises ValueError [EL055] if no component here has seen the Doc."""
        known = _components.get(self._doc, {})
        reference = known.get(name) if name else next(reversed(known.values()), None)
        component = reference() if reference else None
        if component is None:
            raise ValueError(Errors.EL055.format(name=name or "elmo"))
        return component


def get_elmo(doc: Doc) -> ElmoLayers:
    return ElmoLayers(doc)


if not Doc.has_extension("elmo"):
    Doc.set_extension("elmo", getter=get_elmo)
