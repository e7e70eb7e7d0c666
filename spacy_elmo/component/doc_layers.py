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

from ..errors import Errors

if TYPE_CHECKING:
    from .pipe import Elmo


@dataclass
class Held:
    """Layers (L+1, T, D), and ids of the listeners that have yet to read them."""

    layers: Floats3d
    waiting: set[int]


_USER = 0  # no listener has this id


class LayerStore:
    """What a component keeps of the Docs it has seen: how they were cut into pieces,
    and, until every listener has read them, their layers, max_bytes at most."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        # With the number of tokens, since Docs can be retokenised.
        self._pieces: weakref.WeakKeyDictionary[Doc, tuple[int, list[Any]]]
        self._pieces = weakref.WeakKeyDictionary()
        self._held: weakref.WeakKeyDictionary[Doc, Held] = weakref.WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._pieces)

    def put(
        self, doc: Doc, pieces: list[Any], layers: Floats3d, readers: set[int]
    ) -> None:
        """readers: ids of the listeners to come; layers are not held for none."""
        self._pieces[doc] = len(doc), pieces
        self._held.pop(doc, None)  # so that it counts as the newest
        if readers:
            self._held[doc] = Held(layers, set(readers))

    def release(self) -> None:
        """Hold no layers any more."""
        self._held.clear()

    def keep(self, doc: Doc, layers: Floats3d) -> None:
        """Hold layers that a user has asked for, who may ask again."""
        self._held[doc] = Held(layers, {_USER})

    def pieces(self, doc: Doc) -> list[Any] | None:
        """How a Doc was cut; None if it was not, or has other tokens now."""
        n_tokens, pieces = self._pieces.get(doc, (-1, None))
        return pieces if n_tokens == len(doc) else None

    def layers(self, doc: Doc) -> Floats3d | None:
        """Layers that are held and belong to the Doc's tokens as they are now."""
        held = self._held.get(doc)
        return None if held is None or self.pieces(doc) is None else held.layers

    def was_read(self, doc: Doc, reader: int) -> None:
        """Release the layers once the last reader has had them."""
        held = self._held.get(doc)
        if held is not None:
            held.waiting.discard(reader)
            if not held.waiting:
                self._held.pop(doc, None)

    @property
    def held_bytes(self) -> int:
        return sum(held.layers.nbytes for _, held in self._all_held())

    def _all_held(self) -> Iterator[tuple[Doc, Held]]:
        """The oldest first. What is gone through is a copy: other threads may add to
        the dictionary meanwhile."""
        for reference in self._held.keyrefs():
            doc = reference()
            held = self._held.get(doc) if doc is not None else None
            if doc is not None and held is not None:
                yield doc, held

    def trim(self) -> None:
        """Release the oldest layers beyond max_bytes; they are computed anew if asked
        for."""
        excess = self.held_bytes - self.max_bytes
        for doc, held in self._all_held():
            if excess <= 0:
                break
            excess -= held.layers.nbytes
            self._held.pop(doc, None)


_components: "weakref.WeakKeyDictionary[Doc, dict[str, weakref.ref[Elmo]]]"
_components = weakref.WeakKeyDictionary()


def remember(doc: Doc, component: "Elmo") -> None:
    known = _components.setdefault(doc, {})
    known.pop(component.name, None)  # so that it counts as the last
    known[component.name] = weakref.ref(component)


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
