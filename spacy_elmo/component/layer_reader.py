"""The layers of Docs: held, from a layer cache, or computed."""

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from spacy.tokens import Doc
from thinc.types import Floats3d

from ..bilm.bilm import BiLM
from ..errors import Warnings
from ..layers.encoder import Encoder, cut, shim_of
from ..layers.layer_batch import LayerBatch
from ..layers.spans import DocPieces, docs_by_tokens
from .layer_cache import LayerCache, read_through
from .layer_store import USER, LayerStore


class Reading(NamedTuple):
    """Docs with the pieces that they were read in, and their layers."""

    docs: list[DocPieces]
    layers: LayerBatch


class LayerReader:
    """Reads Docs by the biLM of an encoder, and holds their layers for listeners, of
    max_bytes at most."""

    def __init__(self, model: Encoder, max_bytes: int) -> None:
        self.model = model
        self.cache: LayerCache | None = None
        self._store = LayerStore(max_bytes)
        self._bilm: Callable[[], BiLM | None] = lambda: None  # whose layers are held
        self._has_warned = False

    @property
    def store(self) -> LayerStore:
        """The layers that are held: none that other weights made."""
        bilm = shim_of(self.model).bilm
        if self._bilm() is not bilm:
            self._store.release()
            self._bilm = weakref.ref(bilm)
        return self._store

    def read(self, docs: Iterable[Doc | DocPieces]) -> Reading:
        """Return the layers of Docs, from the cache or computed."""
        cut_docs = cut(self.model, list(docs))
        if self.cache is None:
            return Reading(cut_docs, self.model.predict(cut_docs))
        return Reading(cut_docs, read_through(self.cache, self.model, cut_docs))

    def for_listener(self, listener: int, docs: Sequence[Doc]) -> Iterator[LayerBatch]:
        """Yield the layers of Docs in order, as many Docs at once as stand together in
        memory. They are released when every listener, of those whose ids they were held
        for, has had them. The Docs may have other tokens than when they were read."""
        for run, layers in self.store.runs(docs):
            if layers is not None:
                self.store.was_read(run, listener)
                yield layers
            else:
                for some in docs_by_tokens(run):
                    yield self._read_again(some, listener)

    def _read_again(self, docs: list[Doc], listener: int) -> LayerBatch:
        """Read Docs whose layers are not held, and hold them for the other listeners
        that wait for them."""
        released = any(self.store.was_released(doc, listener) for doc in docs)
        if released and not self._has_warned:
            self._has_warned = True
            mb = self.store.max_bytes >> 20
            warnings.warn(Warnings.ELW23.format(mb=mb), stacklevel=2)
        reading = self.read(map(self._as_cut_before, docs))
        waiting = set[int]().union(*map(self.store.waiting, docs)) - {listener}
        if waiting:
            self.store.put(reading.docs, reading.layers, waiting)
        return reading.layers

    def of_doc(self, doc: Doc) -> Floats3d:
        """Return the layers of one Doc, (L+1, T, D), and hold them for who asks again.
        On a CPU they can't be written to."""
        found, waiting = self.store.find(doc), self.store.waiting(doc)
        if found and USER in waiting:
            return found[0].values
        docs = cut(self.model, [self._as_cut_before(doc)])
        if found is None:
            layers = self.read(docs).layers
        elif len(found[0]) == 1:
            layers = found[0]
        else:  # the others are not to stay in memory as long as this one
            layers_LTD: Any = found[0][found[1]]
            layers = LayerBatch(layers_LTD.copy(), [len(doc)])
        if isinstance(layers.values, np.ndarray):  # cupy's can't be protected
            layers.values.flags.writeable = False
        self.store.put(docs, layers, waiting | {USER})
        return layers.values

    def _as_cut_before(self, doc: Doc) -> Doc | DocPieces:
        """Return a Doc with the pieces that it was read in, whatever was annotated
        since, as long as it has the same tokens."""
        record = self.store.record(doc)
        return doc if record is None else DocPieces(doc, record.pieces)
