"""Which layers a component holds, of which Docs and for whom."""

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spacy.attrs import ORTH
from spacy.tokens import Doc

from ..layers.layer_batch import LayerBatch
from ..layers.spans import DocPieces, Pieces

USER = 0  # in the place of a listener's id: layers that a user asked for


@dataclass(eq=False)
class Held:
    """Layers of Docs that were read at once; None once they were released."""

    layers: LayerBatch | None


@dataclass
class Record:
    """What is known of a Doc."""

    tokens: int  # what they were when it was read, since Docs can be retokenised
    pieces: Pieces
    held: Held | None  # its layers, in those of a batch, if they are waited for
    index: int  # its number in that batch
    waiting: set[int]  # ids of the listeners that have yet to read the layers


class LayerStore:
    """How Docs were cut into pieces and, until every listener has read them, their
    layers.

    Args:
        max_bytes: Size of the layers at most. The oldest are released beyond it.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._records: weakref.WeakKeyDictionary[Doc, Record] = (
            weakref.WeakKeyDictionary()
        )
        # By their ids, the oldest first. A batch is gone when no record has it.
        self._batches: dict[int, weakref.ref[Held]] = {}
        self._most_bytes = 0  # of all batches: no fewer than there are

    def __len__(self) -> int:
        """Number of Docs."""
        return len(self._records)

    def put(
        self, docs: Sequence[DocPieces], layers: LayerBatch, readers: set[int]
    ) -> None:
        """Remember how Docs were cut, and hold their layers for some readers."""
        held = Held(layers) if readers else None
        for index, (doc, pieces) in enumerate(docs):
            tokens = tokens_of(doc)
            self._records[doc] = Record(tokens, pieces, held, index, set(readers))
        if held is not None:
            self._batches.pop(id(held), None)  # of one that is gone, and had this id
            self._batches[id(held)] = weakref.ref(held)
            self._most_bytes += layers.values.nbytes
            self._trim()

    def release(self) -> None:
        """Hold no layers any more."""
        for held, _ in self._all_held():
            held.layers = None
        self._batches.clear()
        self._most_bytes = 0

    def record(self, doc: Doc) -> Record | None:
        """Return what is known of a Doc; None if it has other tokens now."""
        record = self._records.get(doc)
        return record if record and record.tokens == tokens_of(doc) else None

    def waiting(self, doc: Doc) -> set[int]:
        """Return the ids of the readers that wait for a Doc's layers, whatever its
        tokens are."""
        record = self._records.get(doc)
        return set(record.waiting) if record else set()

    def was_released(self, doc: Doc, reader: int) -> bool:
        """Return whether a reader's layers were released before it had read them."""
        record = self.record(doc)
        if record is None or record.held is None or reader not in record.waiting:
            return False
        return record.held.layers is None

    def runs(
        self, docs: Sequence[Doc]
    ) -> Iterator[tuple[list[Doc], LayerBatch | None]]:
        """Yield neighbouring Docs whose layers stand side by side in one array, and
        these layers; None for neighbours whose layers are not held."""
        run: list[Doc] = []
        first: tuple[LayerBatch, int] | None = None
        for doc in docs:
            found = self.find(doc)
            if run and not _follows(found, first, len(run)):
                yield run, first and first[0][first[1] : first[1] + len(run)]
                run = []
            first = first if run else found
            run.append(doc)
        if run:
            yield run, first and first[0][first[1] : first[1] + len(run)]

    def find(self, doc: Doc) -> tuple[LayerBatch, int] | None:
        """Return the layers that hold those of a Doc, and its number in them."""
        record = self.record(doc)
        held = record.held if record else None
        layers = held.layers if held else None
        return (layers, record.index) if record and layers is not None else None

    def was_read(self, docs: Sequence[Doc], reader: int) -> None:
        """Release the layers once the last reader has had them."""
        for doc in docs:
            record = self._records.get(doc)
            if record is not None:
                record.waiting.discard(reader)
                if not record.waiting:
                    record.held = None

    @property
    def held_bytes(self) -> int:
        """Size of all layers that are held. A batch counts as long as one of its Docs
        is waited for."""
        return sum(layers.values.nbytes for _, layers in self._all_held())

    def _all_held(self) -> list[tuple[Held, LayerBatch]]:
        """Return the batches that have layers, the oldest first."""
        batches = [reference() for reference in list(self._batches.values())]
        layers = [(held, held.layers) for held in batches if held is not None]
        return [(held, each) for held, each in layers if each is not None]

    def _trim(self) -> None:
        """Release the oldest layers beyond max_bytes, and forget batches that are gone.

        They are only counted when they may have become too many, and then released down
        to seven eighths, so that not every batch counts them."""
        if self._most_bytes <= self.max_bytes:
            return
        known = list(self._batches.items())  # other threads may add some meanwhile
        excess = self.held_bytes - self.max_bytes
        excess += self.max_bytes // 8 if excess > 0 else 0
        for held, layers in self._all_held():
            if excess > 0:
                excess -= layers.values.nbytes
                held.layers = None
        for key, reference in known:
            batch = reference()
            is_gone = batch is None or batch.layers is None
            if is_gone and self._batches.get(key) is reference:
                del self._batches[key]
        self._most_bytes = self.held_bytes


def tokens_of(doc: Doc) -> int:
    """Return a number that differs, as far as 64 bits go, if a Doc's tokens do."""
    return hash(doc.to_array(ORTH).tobytes())


def _follows(
    found: tuple[LayerBatch, int] | None, first: tuple[LayerBatch, int] | None, n: int
) -> bool:
    """Return whether a Doc's layers stand n Docs behind those of the first."""
    if found is None or first is None:
        return found is first
    return found[0] is first[0] and found[1] == first[1] + n
