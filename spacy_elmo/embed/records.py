"""Records of an input: lines of text, JSON objects, CoNLL-U sentences or Docs.

A record belongs to the range of the input in which it begins. Ranges are cut at the
next end of a line or record, which is looked for when the range is read: planning reads
no contents. A line longer than a piece is cut between words, and may span ranges.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import spacy
from spacy.tokens import Doc, DocBin

from ..errors import Errors
from ..files import coded
from ..text import read_docs
from ..text.docs import CHUNK
from .checksums import new_checksum
from .inputs import ByteStream, Input

MAX_RECORD = 16 << 20  # bytes of a JSON line or of a CoNLL-U sentence
MAX_PIECE = 1 << 16  # bytes of a line that are tokenised at once

_NEWLINE, _SPACE = re.compile(rb"\n"), re.compile(rb" ")
_BLANK_LINES = re.compile(rb"\n\r?\n(?![\r\n])")


class Record(NamedTuple):
    """A document, or a piece of a long line.

    position: where it begins in the unpacked input, in bytes; for a Doc its number.
    begins: whether a document begins with it, or the document before continues.
    data: bytes, or a Doc.
    """

    position: int
    begins: bool
    data: Any


class Source:
    """Reads the records of an input, one range after the other. No more than a piece of
    a line is read at once; ranges are at least four times as long."""

    def __init__(self, described: Input, piece: int) -> None:
        described.check_unchanged()
        self.stream, self.piece = ByteStream(described), piece
        self.at_end = False
        self._taken, self._checksum = 0, new_checksum()

    def close(self) -> None:
        """Close the file."""
        self.stream.close()

    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield the records that begin in start:end.

        Raises:
            ValueError: [EL205] for a record that is too long or damaged.
            OSError: [EL030] if the file is damaged.
        """
        raise NotImplementedError

    def take_checksum(self) -> str:
        """Return the checksum of what was read since the last call."""
        found, self._checksum = self._checksum, new_checksum()
        return found.hexdigest()

    @property
    def packed_size(self) -> float:
        """How many bytes on the disk hold what was read."""
        return self._taken * self.stream.raw_position / max(1, self.stream.end)

    def _take(self, start: int, stop: int) -> bytes:
        data = self.stream.read(start, stop)
        self._checksum.update(data)
        self._taken += len(data)
        self.at_end = not self.stream.read(stop, stop + 1)
        return data


class Lines(Source):
    """Text with one document per line."""

    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield lines, long ones in pieces; blank lines are left out."""
        self.stream.skip_to(max(0, start - 1))
        first, stop = self._cut(start), self._cut(end)
        begins = first == 0 or self.stream.read(first - 1, first) == b"\n"
        data, at = self._take(first, stop), 0
        while at < len(data):
            until = self._end_of_piece(data, at)
            piece = data[at:until]
            ends = piece.endswith(b"\n")
            is_whole = begins and (ends or (self.at_end and until == len(data)))
            if piece.strip() or not is_whole:
                yield Record(first + at, begins, piece)
                begins = ends
            at = until

    def _cut(self, position: int) -> int:
        """Return the place from a position on at which ranges are cut: the start of a
        line or, where the line is long, of a word or a character."""
        if not position:
            return 0
        for mark in (_NEWLINE, _SPACE):
            end = self.stream.find(mark, position, self.piece)
            if end >= 0:
                return end
        return position + _rest_of_character(self.stream.read(position, position + 3))

    def _end_of_piece(self, data: bytes, start: int) -> int:
        stop = start + self.piece
        newline = data.find(b"\n", start, stop)
        if newline >= 0 or stop >= len(data):
            return newline + 1 or len(data)
        space = data.rfind(b" ", start, stop)
        return space + 1 or stop + _rest_of_character(data[stop : stop + 3])


def _rest_of_character(data: bytes) -> int:
    """Return how many bytes belong to a UTF-8 character that began before."""
    return [*(byte & 0xC0 == 0x80 for byte in data), False].index(False)


class Records(Source):
    """JSON lines, or CoNLL-U sentences that blank lines separate."""

    def __init__(self, described: Input, piece: int) -> None:
        super().__init__(described, piece)
        self._mark = _NEWLINE if described.kind == "jsonl" else _BLANK_LINES

    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield records whole; blank ones are left out."""
        self.stream.skip_to(max(0, start - 3))
        position = self._end_of_record(start - 1) if start else 0
        while position < end:
            stop = self._end_of_record(position)
            data = self._take(position, stop)
            if data.strip():
                yield Record(position, True, data)
            position = stop if data else end

    def _end_of_record(self, start: int) -> int:
        end = self.stream.find(self._mark, start + 1, MAX_RECORD)
        if end < 0 and not self.stream.ended:
            problem = f"a record has more than {MAX_RECORD:,} bytes"
            path = self.stream.path
            raise ValueError(Errors.EL205.format(path=path, at=start, problem=problem))
        return end if end >= 0 else self.stream.end


class Docs(Source):
    """Docs of a `.spacy` file, which spaCy reads at once. Ranges count characters."""

    def __init__(self, described: Input, piece: int) -> None:
        super().__init__(described, piece)
        with coded(Errors.EL205, self.stream.path, at=0):
            docs = read_docs(self._blocks())
        self._mean_bytes = self.stream.end / max(1, len(docs))
        self._docs = enumerate(self._each(docs))
        self._position, self._next = 0, next(self._docs, None)

    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield Docs."""
        while self._next is not None and self._position < end:
            (number, doc), at = self._next, self._position
            self._next = next(self._docs, None)
            self._position += len(doc.text) + 1
            if at >= start:
                self._checksum.update(doc.text.encode("utf-8", "replace") + b"\0")
                self._taken += round(self._mean_bytes)
                yield Record(number, True, doc)
        self.at_end = self._next is None

    def _blocks(self) -> Iterator[bytes]:
        end = 0
        while block := self.stream.read(end, end + CHUNK):
            end += len(block)
            yield block

    def _each(self, docs: DocBin) -> Iterator[Doc]:
        with coded(Errors.EL205, self.stream.path, at=0):
            yield from docs.get_docs(spacy.blank("xx").vocab)


def open_source(described: Input, piece: int) -> Source:
    """Open an input.

    Raises:
        ValueError: [EL204] if it was changed, [EL205] if it is damaged.
        OSError: [EL030] if it can't be read.
    """
    kinds = {"text": Lines, "spacy": Docs}
    return kinds.get(described.kind, Records)(described, piece)
