"""Which layers a component holds, of which Docs and for whom."""

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, groupby

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
    layers, of which the oldest are released beyond max_bytes."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._records: weakref.WeakKeyDictionary[Doc, Record] = (
            weakref.WeakKeyDictionary()
        )
        # The oldest first. A batch is gone when no record has it.
        self._batches: weakref.WeakValueDictionary[int, Held] = (
            weakref.WeakValueDictionary()
        )
        self._numbers = count()
        self._most_bytes = 0  # of all batches: no fewer than there are

    def put(
        self, docs: Sequence[DocPieces], layers: LayerBatch, readers: set[int]
    ) -> None:
        """Remember how Docs were cut, and hold their layers for some readers."""
        held = Held(layers) if readers else None
        for index, (doc, pieces) in enumerate(docs):
            tokens = tokens_of(doc)
            self._records[doc] = Record(tokens, pieces, held, index, set(readers))
        if held is not None:
            self._batches[next(self._numbers)] = held
            self._most_bytes += layers.values.nbytes
            if self._most_bytes > self.max_bytes:
                self._trim()

    def release(self) -> None:
        """Hold no layers any more."""
        for held, _ in self._sizes():
            held.layers = None
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

    def find(self, doc: Doc) -> tuple[LayerBatch, int] | None:
        """Return the layers that hold those of a Doc, and its number in them."""
        record = self.record(doc)
        layers = record.held.layers if record and record.held else None
        return (layers, record.index) if record and layers is not None else None

    def runs(
        self, docs: Sequence[Doc]
    ) -> Iterator[tuple[list[Doc], LayerBatch | None]]:
        """Yield neighbouring Docs whose layers stand side by side in one array, and
        these layers; None for neighbours whose layers are not held."""

        def place(numbered: tuple[int, Doc]) -> tuple[LayerBatch, int] | None:
            number, doc = numbered
            found = self.find(doc)
            return found and (found[0], found[1] - number)

        for found, group in groupby(enumerate(docs), key=place):
            numbers, run = zip(*group)
            if found is None:
                yield list(run), None
            else:
                start = numbers[0] + found[1]
                yield list(run), found[0][start : start + len(run)]

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


def tokens_of(doc: Doc) -> int:
    """Return a number that differs, as far as 64 bits go, if a Doc's tokens do."""
    return hash(doc.to_array(ORTH).tobytes())
