"""Records of an input: lines of text, JSON objects, CoNLL-U sentences or Docs.

A record belongs to the range of the input in which it begins. Ranges are cut at the
next end of a line or record, which is looked for when the range is read: planning reads
no contents. A line longer than a piece is cut between words, and may span ranges.
"""

import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import spacy
from spacy.tokens import DocBin

from ..errors import Errors
from ..text.unpack import CHUNK
from .checksums import Checksum
from .inputs import Input
from .streams import ByteStream

MAX_RECORD = 16 << 20  # bytes of a JSON line or of a CoNLL-U sentence
MAX_DOCS = 1 << 30  # bytes of the Docs of a file, which spaCy reads at once
MAX_PIECE = 1 << 16  # bytes of a line that are tokenised at once

_NEWLINE, _SPACE = re.compile(rb"\n"), re.compile(rb" ")
_BLANK_LINES = re.compile(rb"\n\r?\n(?![\r\n])")


class Record(NamedTuple):
    """A document, or a piece of a long line.

    Attributes:
        position: Where it begins in the unpacked input, in bytes; for a Doc its number.
        begins: Whether a document begins with it, or the document before continues.
        data: Bytes, or a Doc.
    """

    position: int
    begins: bool
    data: Any


class Source:
    """Reads the records of an input, one range after the other.

    Args:
        path: The file.
        compression: As in `Input`.
        piece: Bytes of a line that are read at once at most. Ranges are at least four
            times as long.
    """

    def __init__(self, path: Path, compression: str, piece: int) -> None:
        self.piece = piece
        self.stream = ByteStream(path, compression)

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
        found, self.stream.checksum = self.stream.checksum, Checksum()
        return found.hexdigest()

    @property
    def bytes_read(self) -> int:
        """How many bytes have been read, as they are on the disk."""
        return self.stream.raw_position

    def packed_size(self, start: int) -> float:
        """Return how many bytes on the disk hold what was read from a start on."""
        unpacked = self.stream.position - start
        return unpacked * self.bytes_read / max(1, self.stream.end)

    @property
    def at_end(self) -> bool:
        """Whether all has been read."""
        return self.stream.at_end


class Lines(Source):
    """Text with one document per line."""

    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield lines, long ones in pieces; blank lines are left out."""
        stream = self.stream
        if start and stream.position < start:
            stream.skip_to(start - 1)
            stream.position = self._cut(start)
        position, stop = stream.position, None
        begins = position == 0 or stream.peek(position - 1, 1) == b"\n"
        while stop is None or stream.position < stop:
            position = stream.position
            if stop is None and position + self.piece >= end - 1:
                stop = self._cut(end)
                continue
            data = stream.take(self._end_of_piece(stop))
            if not data:
                return
            ends = data[-1:] == b"\n"
            if begins and not data.strip() and (ends or stream.at_end):
                continue
            yield Record(position, begins, data)
            begins = ends

    def _cut(self, position: int) -> int:
        """Return the place from a position on at which ranges are cut: the start of a
        line or, where the line is long, of a word or a character."""
        for mark in (_NEWLINE, _SPACE):
            end = self.stream.search(mark, position - 1, self.piece)
            if end >= 0:
                return end
        return self._start_of_character(position)

    def _end_of_piece(self, stop: int | None) -> int:
        stream, position = self.stream, self.stream.position
        length = self.piece if stop is None else min(self.piece, stop - position)
        end = stream.search(_NEWLINE, position, length)
        if end >= 0:
            return end
        data = stream.peek(position, length + 1)
        if len(data) <= length or position + length == stop:
            return position + min(length, len(data))
        space = data.rfind(b" ", 0, length)
        if space >= 0:
            return position + space + 1
        return self._start_of_character(position + length)

    def _start_of_character(self, position: int) -> int:
        """Return the first place from a position on that is not inside a UTF-8
        character, or the input's end."""
        start = self.stream.position
        before = len(self.stream.peek(start, position - start))
        inside = [byte & 0xC0 == 0x80 for byte in self.stream.peek(position, 3)]
        return min(position, start + before) + [*inside, False].index(False)


class Records(Source):
    """JSON lines, or CoNLL-U sentences that blank lines separate.

    Args:
        path: The file.
        compression: As in `Input`.
        piece: Not used.
        mark: What a record ends with.
    """

    def __init__(
        self, path: Path, compression: str, piece: int, mark: "re.Pattern[bytes]"
    ) -> None:
        super().__init__(path, compression, piece)
        self._mark = mark

    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield records whole; blank ones are left out."""
        stream = self.stream
        if start and stream.position < start:
            stream.skip_to(max(0, start - 3))  # a mark has three bytes at most
            while stream.position < start and not stream.at_end:
                stream.position = self._end_of_record()
        while stream.position < end:
            position = stream.position
            data = stream.take(self._end_of_record())
            if not data:
                return
            if data.strip():
                yield Record(position, True, data)

    def _end_of_record(self) -> int:
        stream, start = self.stream, self.stream.position
        end = stream.search(self._mark, start, MAX_RECORD)
        if end < 0:
            end = start + len(stream.peek(start, MAX_RECORD))
            if stream.peek(end, 1):
                problem = f"a record has more than {MAX_RECORD:,} bytes"
                raise ValueError(
                    Errors.EL205.format(path=stream.path, at=start, problem=problem)
                )
        return end


class Docs(Source):
    """Docs of a `.spacy` file, which spaCy reads at once. Ranges count characters."""

    def __init__(self, path: Path, compression: str, piece: int) -> None:
        super().__init__(path, compression, piece)
        docs = _read_docs(self.stream)
        self._n_docs, self._number, self._position = len(docs), 0, 0
        self._docs = docs.get_docs(spacy.blank("xx").vocab)
        self._next = next(self._docs, None)
        self.stream.checksum = Checksum()

    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield Docs."""
        while self._next is not None and self._position < end:
            doc, number, at = self._next, self._number, self._position
            self._position += len(doc.text) + 1
            self._next, self._number = next(self._docs, None), number + 1
            if at >= start:
                self.stream.checksum.add(doc.text.encode("utf-8", "replace") + b"\0")
                yield Record(number, True, doc)

    def packed_size(self, start: int) -> float:
        """Return how many bytes on the disk hold what was read."""
        return self.bytes_read * self._number / max(1, self._n_docs)

    @property
    def at_end(self) -> bool:
        """Whether all has been read."""
        return self._next is None


def _read_docs(stream: ByteStream) -> DocBin:
    unpack, size, data = zlib.decompressobj(), 0, bytearray()
    try:
        while block := stream.take(stream.position + CHUNK):
            data += block
            while block:
                size += len(unpack.decompress(block, CHUNK))
                block = unpack.unconsumed_tail
                if size > MAX_DOCS:
                    raise ValueError(f"its Docs take more than {MAX_DOCS:,} bytes")
        return DocBin().from_bytes(bytes(data))
    except (ValueError, LookupError, TypeError, AttributeError, zlib.error) as error:
        raise ValueError(
            Errors.EL205.format(path=stream.path, at=0, problem=error)
        ) from error


def open_source(source: Input, piece: int) -> Source:
    """Open an input.

    Args:
        source: The input.
        piece: As in `Source`.

    Raises:
        ValueError: [EL204] if it was changed, [EL205] if it is damaged.
        OSError: [EL030] if it can't be read.
    """
    source.check_unchanged()
    path = Path(source.path)
    if source.kind == "spacy":
        return Docs(path, source.compression, piece)
    if source.kind == "text":
        return Lines(path, source.compression, piece)
    mark = _NEWLINE if source.kind == "jsonl" else _BLANK_LINES
    return Records(path, source.compression, piece, mark)
