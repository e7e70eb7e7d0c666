"""A shard: vectors and the text that they are of.

Its arrays beside the vectors; offsets have one more at the end:
    document_offsets, sentence_offsets    number of the first token of each
    document_ids, document_ids_offsets    UTF-8; where each document's begins
    document_positions    where it begins in the input: a byte, or the number of a Doc
    token_text, token_text_offsets        UTF-8; where each token's begins
    token_starts, token_ends              in characters of (the part of) the document
    scales                                of int8
Where sentences have the vectors, those of tokens are left out; where documents have
them, sentence_offsets too.

Its header:
    plan, shard    hash of the plan, name of the shard
    processor      kind of processor that computed the vectors
    pool           what has a vector: token, sentence or doc
    counts         of documents, sentences, tokens and rows
    input          checksum of the records that were read
    continues      whether its first document began in the shard before
    last           whether it is the last shard of its job
    error          of rounding: sums of the squared differences and of the squared
                   values, and the largest difference
    arrays         type, shape and checksum of each
"""

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..files import bytes_of, new_checksum
from ..text import Part
from .keep import unpack

# Tokens that are read at once, and the number of the (first) row that they are for.
Unit = tuple[int, list[str]]
ROWS_AT_ONCE = 2048
PIECE = 1 << 14  # numbers


@dataclass(frozen=True)
class Shard:
    """A shard as it is read: header and arrays as above. `read_rows` returns the rows
    start:stop in the type in which they are written."""

    header: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    read_rows: Callable[[int, int], np.ndarray]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.header["arrays"]["vectors"]["shape"][0])

    def vectors(self, start: int, stop: int) -> np.ndarray:
        """Return rows as float32; without a copy if they are written so."""
        scales = self.arrays.get("scales")
        rows = self.read_rows(start, stop)
        return unpack(rows, None if scales is None else scales[start:stop])

    def texts(self, name: str, start: int, stop: int) -> list[str]:
        """Return some of the strings of `document_ids` or `token_text`."""
        offsets = self.arrays[f"{name}_offsets"][start : stop + 1]
        data = self.arrays[name][offsets[0] : offsets[-1]].tobytes()
        ends = (offsets - offsets[0]).tolist()
        return [data[a:b].decode("utf-8") for a, b in pairwise(ends)]

    def tokens_of(self, document: int) -> tuple[int, int]:
        """Return a document's first token, and the one after its last."""
        first, last = self.arrays["document_offsets"][document : document + 2]
        return int(first), int(last)

    def sentences_of(self, document: int) -> tuple[int, int]:
        """Return a document's first sentence, and the one after its last."""
        offsets = self.arrays["sentence_offsets"]
        first, last = np.searchsorted(offsets, self.tokens_of(document))
        return int(first), int(last)

    def rows_of(self, document: int) -> tuple[int, int]:
        """Return a document's first row, and the one after its last."""
        pool = self.header["pool"]
        if pool == "doc":
            return document, document + 1
        return (self.tokens_of if pool == "token" else self.sentences_of)(document)

    def check_arrays(self) -> None:
        """Raise ValueError if the arrays are not what the header says."""
        for name, said in self.header["arrays"].items():
            digest, n_rows = new_checksum(), said["shape"][0]
            if name == "vectors":
                for start in range(0, n_rows, ROWS_AT_ONCE):
                    stop = min(start + ROWS_AT_ONCE, n_rows)
                    digest.update(bytes_of(self.read_rows(start, stop)))
            else:
                expect(f"{name}'s type", self.arrays[name].dtype.name, said["dtype"])
                digest.update(bytes_of(self.arrays[name]))
            expect(f"checksum of {name}", digest.hexdigest(), said["checksum"])


def expect(what: str, found: object, expected: object) -> None:
    """Raise ValueError if something of a shard is not as expected."""
    if found != expected:
        raise ValueError(f"its {what} is {found}, not {expected}")


class Columns:
    """Gathers the text of a shard and where everything in it begins. A document without
    an id gets the number of the input (source) and its position."""

    def __init__(self, pool: str, source: int) -> None:
        self.pool, self.source, self.continues = pool, source, False
        self._n_tokens, self._n_sentences = 0, 0
        self._ids, self._tokens = _Texts(), _Texts()
        self._n_documents = 0
        self._values = {
            name: _Numbers("q")
            for name in ("document_offsets", "document_positions", "sentence_offsets")
        }
        self._places = {name: _Numbers("i") for name in ("token_starts", "token_ends")}

    def add(self, part: Part) -> list[Unit]:
        """Add the next part. Return what there is to compute of it."""
        values = self._values
        if part.begins or not self._n_documents:
            self.continues |= not part.begins
            self._ids.add([part.id or f"{self.source}:{part.position}"])
            values["document_positions"].extend([part.position])
            values["document_offsets"].extend([self._n_tokens])
            self._n_documents += 1
        document, units = self._n_documents - 1, []
        for tokens, starts, ends in part.sentences:
            rows = {"token": self._n_tokens, "sentence": self._n_sentences}
            units.append((rows.get(self.pool, document), tokens))
            if self.pool == "token":
                self._tokens.add(tokens)
                self._places["token_starts"].extend(starts)
                self._places["token_ends"].extend(ends)
            values["sentence_offsets"].extend([self._n_tokens])
            self._n_tokens += len(tokens)
            self._n_sentences += 1
        return units or ([(document, [])] if self.pool == "doc" else [])

    def counts(self) -> dict[str, int]:
        """Return the numbers of documents, sentences and tokens."""
        return {
            "documents": self._n_documents,
            "sentences": self._n_sentences,
            "tokens": self._n_tokens,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what is written, by name, once: it is not kept."""
        found = {name: v.take() for name, v in self._values.items()}
        for name in ("document_offsets", "sentence_offsets"):
            found[name] = np.append(found[name], self._n_tokens)
        found |= self._ids.arrays("document_ids")
        if self.pool == "doc":
            del found["sentence_offsets"]
        if self.pool == "token":
            found |= self._tokens.arrays("token_text")
            found |= {name: v.take() for name, v in self._places.items()}
        return found


class _Numbers:
    """Gathers numbers in pieces: arrays that grow to megabytes are moved as they do,
    and leave gaps in the memory of the batches."""

    def __init__(self, code: str) -> None:
        self._pieces = [array(code)]

    def extend(self, values: list[int] | bytes) -> None:
        if len(self._pieces[-1]) >= PIECE:
            self._pieces.append(array(self._pieces[-1].typecode))
        add = self._pieces[-1]
        add.frombytes(values) if isinstance(values, bytes) else add.fromlist(values)

    def take(self) -> np.ndarray:
        """Return all numbers, which are not kept."""
        pieces, self._pieces = self._pieces, [array(self._pieces[-1].typecode)]
        return np.concatenate(pieces)


class _Texts:
    def __init__(self) -> None:
        self._data, self._offsets, self._size = _Numbers("B"), _Numbers("q"), 0
        self._offsets.extend([0])

    def add(self, texts: Iterable[str]) -> None:
        encoded = [text.encode("utf-8", "replace") for text in texts]
        _, *ends = accumulate(map(len, encoded), initial=self._size)
        self._offsets.extend(ends)
        self._data.extend(b"".join(encoded))
        self._size = ends[-1] if ends else self._size

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        return {f"{name}_offsets": self._offsets.take(), name: self._data.take()}
