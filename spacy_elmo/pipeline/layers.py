"""The layers of Docs, which a component holds for its listeners and for users.

They live beside the Docs, in weak dictionaries of the component: nothing is written
into a Doc but `doc.tensor`, so layers never travel in `user_data`, to other processes
or into files.
"""

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from spacy.tokens import Doc
from thinc.types import Floats3d

from ..bilm import BiLM
from ..errors import Errors, Warnings
from ..machine import ProcessLock, prepare_for_forks
from .cache import LayerCache
from .encoder import (
    Encoder,
    LayerBatch,
    as_batch,
    cut,
    group_docs,
    sentences_of,
    shim_of,
)
from .windows import DocPieces, Pieces, token_hash

if TYPE_CHECKING:
    from .component import Elmo

USER = 0  # in the place of a listener's id: layers that a user asked for


@dataclass(eq=False)
class Held:
    """Layers of Docs that were encoded at once; None once they were released."""

    layers: LayerBatch | None


@dataclass
class Record:
    """What is known of a Doc with certain tokens, since Docs can be retokenised."""

    tokens: int  # their hash
    pieces: Pieces | None = None  # that it was cut into
    held: Held | None = None  # its layers, in those of a batch, if they are waited for
    index: int = 0  # its number in that batch
    waiting: set[int] = field(default_factory=set)  # ids of listeners yet to read them

    @property
    def layers(self) -> LayerBatch | None:
        """The layers of its batch, if they are held."""
        return self.held.layers if self.held else None


class LayerStore:
    """Remembers how Docs were cut into pieces, and holds their layers until every
    listener has read them. Beyond max_bytes the oldest are released."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._records = weakref.WeakKeyDictionary[Doc, Record]()
        # The oldest first. A batch is gone when no record has it.
        self._batches = weakref.WeakValueDictionary[int, Held]()
        self._numbers = count()
        self._most_bytes = 0  # of all batches: no fewer than there are
        self._counting = ProcessLock()  # what is added meanwhile would not be counted

    def put(
        self, docs: Sequence[DocPieces], layers: LayerBatch, listeners: set[int]
    ) -> None:
        """Remember how Docs were cut, and hold their layers for some listeners."""
        held = Held(layers) if listeners else None
        for index, (doc, pieces) in enumerate(docs):
            record = Record(token_hash(doc), pieces, held, index, set(listeners))
            self._records[doc] = record
        if held is not None:
            with self._counting:
                self._batches[next(self._numbers)] = held
                self._most_bytes += layers.values.nbytes
                if self._most_bytes > self.max_bytes:
                    self._trim()

    def release(self) -> None:
        """Hold no layers any more, as if none had been."""
        with self._counting:
            for reference in self._records.keyrefs():
                doc = reference()
                record = None if doc is None else self._records.get(doc)
                if record is not None:
                    record.held = None
            self._most_bytes = 0

    def record(self, doc: Doc) -> Record:
        """Return what is known of a Doc. If it was never encoded, or has other tokens
        now, that is only who waits for it."""
        record, tokens = self._records.get(doc), token_hash(doc)
        if record is not None and record.tokens == tokens:
            return record
        return Record(tokens, waiting=record.waiting if record else set())

    def runs(
        self, docs: Sequence[Doc]
    ) -> Iterator[tuple[list[Doc], LayerBatch | None]]:
        """Yield neighbouring Docs whose layers stand side by side in one array, and
        these layers; None for neighbours whose layers are not held."""

        def place(numbered: tuple[int, Doc]) -> tuple[LayerBatch, int] | None:
            number, doc = numbered
            record = self.record(doc)
            layers = record.layers
            return None if layers is None else (layers, record.index - number)

        for found, group in groupby(enumerate(docs), key=place):
            numbers, run = zip(*group)
            if found is None:
                yield list(run), None
            else:
                start = numbers[0] + found[1]
                yield list(run), found[0][start : start + len(run)]

    def was_read(self, docs: Sequence[Doc], listener: int) -> None:
        """Release the layers once the last listener has had them."""
        for doc in docs:
            record = self._records.get(doc)
            if record is not None:
                record.waiting.discard(listener)
                if not record.waiting:
                    record.held = None

    @property
    def held_bytes(self) -> int:
        """Size of all layers that are held. A batch counts as long as one of its Docs
        is waited for."""
        return sum(n_bytes for _, n_bytes in self._sizes())

    def _sizes(self) -> list[tuple[Held, int]]:
        """Return the batches that have layers, with their bytes, the oldest first."""
        # Other threads may add or release some meanwhile.
        batches = [reference() for reference in self._batches.valuerefs()]
        layers = [(held, held.layers) for held in batches if held is not None]
        return [(held, each.values.nbytes) for held, each in layers if each is not None]

    def _trim(self) -> None:
        """Release the oldest layers beyond max_bytes, down to seven eighths, so that
        not every new batch makes it necessary to count them."""
        excess = self.held_bytes - self.max_bytes
        excess += self.max_bytes // 8 if excess > 0 else 0
        for held, n_bytes in self._sizes():
            if excess > 0:
                excess -= n_bytes
                held.layers = None
        self._most_bytes = self.held_bytes


class EncodedDocs(NamedTuple):
    """Docs with the pieces that they were cut into, and their layers."""

    docs: list[DocPieces]
    layers: LayerBatch


class SharedLayers:
    """Encodes Docs, or takes their layers from a cache, and holds the layers for
    everybody who listens to a component.

    Args:
        encoder: `spacy-elmo.BiLM.v1`.
        max_bytes: Size at most of the layers that are held.
    """

    def __init__(self, encoder: Encoder, max_bytes: int) -> None:
        self.encoder = encoder
        self.cache: LayerCache | None = None
        self._store = LayerStore(max_bytes)
        self._bilm: Callable[[], BiLM | None] = lambda: None  # whose layers are held
        self._has_warned = False

    @property
    def store(self) -> LayerStore:
        """The layers that are held: none that another biLM made."""
        bilm = shim_of(self.encoder).bilm
        if self._bilm() is not bilm:
            self._store.release()
            self._bilm = weakref.ref(bilm)
        return self._store

    def encode(self, docs: Iterable[Doc | DocPieces]) -> EncodedDocs:
        """Return the layers of Docs, from the cache or computed. Warn [ELW26] if the
        cache was removed or damaged meanwhile, and do without it from then on."""
        prepare_for_forks()
        cut_docs = cut(self.encoder, list(docs))
        sentences = sentences_of(cut_docs)
        cache = self.cache  # another thread may take it away
        if cache is None:
            layers_LND = self.encoder.layers[0].predict(sentences)
        else:
            try:
                layers_LND = cache.predict(self.encoder, sentences)
            except (Errors.EL086, Errors.EL087) as error:
                self.cache = None  # a cache is not needed
                warnings.warn(Warnings.ELW26(error=error), stacklevel=2)
                return self.encode(cut_docs)
        return EncodedDocs(cut_docs, as_batch(layers_LND, sentences))

    def for_listener(
        self, listener: int, docs: Sequence[Doc], listeners: set[int]
    ) -> Iterator[LayerBatch]:
        """Yield the layers of Docs in order, one array for each run of Docs that were
        encoded together. A batch is released once all its listeners have read it. Docs
        that were not encoded, or have other tokens since, are encoded now, and kept for
        all listeners.

        Args:
            listener: Id of the listener that asks.
            docs: Docs, which the component has encoded or not.
            listeners: Ids of all listeners.
        """
        for run, layers in self.store.runs(docs):
            if layers is not None:
                self.store.was_read(run, listener)
                yield layers
            else:
                for some in group_docs(self.encoder, run):
                    yield self._encode_again(some, listener, listeners)

    def _encode_again(
        self, docs: list[Doc], listener: int, listeners: set[int]
    ) -> LayerBatch:
        """Encode Docs whose layers are not held, and hold them for the other listeners
        that wait for them."""
        records = [self.store.record(doc) for doc in docs]
        released = any(each.held and listener in each.waiting for each in records)
        if released and not self._has_warned:
            self._has_warned = True
            mb = self.store.max_bytes >> 20
            warnings.warn(Warnings.ELW23(mb=mb), stacklevel=2)
        encoded = self.encode(map(_as_cut_before, docs, records))
        # A user gets the layers of a Doc alone, see below.
        waiting = set[int]().union(*(each.waiting for each in records))
        if not any(each.pieces for each in records):
            waiting |= listeners
        if others := waiting - {listener, USER}:
            self.store.put(encoded.docs, encoded.layers, others)
        return encoded.layers

    def of_doc(self, doc: Doc) -> Floats3d:
        """Return the layers of one Doc, (L+1, T, D), and hold them, to be asked for
        again. On a CPU they can't be written to."""
        record = self.store.record(doc)
        layers = record.layers
        if layers is not None and USER in record.waiting:
            return layers.values
        docs = cut(self.encoder, [_as_cut_before(doc, record)])
        if layers is None:
            layers = self.encode(docs).layers
            layers.check()
        elif len(layers) > 1:  # the others are not to stay in memory as long as this
            layers_LTD: Any = layers[record.index]
            layers = LayerBatch(layers_LTD.copy(), [len(doc)])
        if isinstance(layers.values, np.ndarray):  # cupy's can't be protected
            layers.values.flags.writeable = False
        self.store.put(docs, layers, record.waiting | {USER})
        return layers.values


def _as_cut_before(doc: Doc, record: Record) -> Doc | DocPieces:
    """Return a Doc with the pieces that it was cut into before, whatever was annotated
    since."""
    return doc if record.pieces is None else DocPieces(doc, record.pieces)


# -- which components a Doc went through ------------------------------------------

# For each Doc the components by name, the last one at the end, and whether `doc.tensor`
# has vectors of theirs.
_components: "weakref.WeakKeyDictionary[Doc, dict[str, tuple[weakref.ref[Elmo], bool]]]"
_components = weakref.WeakKeyDictionary()


def remember(doc: Doc, component: "Elmo") -> None:
    """Remember that a Doc went through a component, which `doc._.elmo` then asks."""
    known = _components.setdefault(doc, {})
    known.pop(component.name, None)  # so that it counts as the last
    known[component.name] = weakref.ref(component), component.owns_tensor


def components_of(doc: Doc) -> "list[Elmo]":
    """Return the components that a Doc went through and that are still there."""
    found = [reference() for reference, _ in _components.get(doc, {}).values()]
    return [component for component in found if component is not None]


def component_of(doc: Doc, name: str | None = None) -> "Elmo":
    """Return the component of a name that a Doc went through, or the last one. Raises
    ValueError [EL055] if it went through none, or the component is gone."""
    known = _components.get(doc, {})
    if name is None:
        name = next(reversed(known), "elmo")
    component = known[name][0]() if name in known else None
    if component is None:
        raise Errors.EL055(name=name)
    return component


def tensor_is_elmo(doc: Doc) -> bool:
    """Return whether `doc.tensor` has vectors of an `elmo` component. It is true, too,
    of a Doc that went through none here: it may come from a file."""
    known = _components.get(doc, {})
    return not known or any(owns_tensor for _, owns_tensor in known.values())
