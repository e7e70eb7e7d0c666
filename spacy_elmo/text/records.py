"""Records of a file: lines of text, JSON objects, CoNLL-U sentences or Docs.

A record belongs to the range of the file in which it begins. A range really ends at the
next end of a line or record, which is found when the range is read. A line longer than
a piece is cut between words, and may span ranges.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import Errors
from ..files import new_checksum, parsing
from .files import TextFile
from .unpack import CHUNK, ByteStream

if TYPE_CHECKING:
    from spacy.tokens import DocBin

MAX_RECORD = 32 << 20  # most bytes of a JSON line or of a CoNLL-U sentence
MAX_PIECE = 1 << 19  # most bytes of a line that are read at once
MAX_DOCS = 1 << 30  # most bytes of the Docs of a file, which spaCy reads at once

_NEWLINE, _SPACE = re.compile(rb"\n"), re.compile(rb" ")
_BLANK_LINES = re.compile(rb"\n\r?\n(?![\r\n])")


class Record(NamedTuple):
    """A document, or a piece of a long one.

    Attributes:
        position: Its first byte in the unpacked file; for a Doc its number.
        begins: Whether a document begins with it. Otherwise it continues the last one.
        data: Bytes, or a Doc.
    """

    position: int
    begins: bool
    data: Any


class Source:
    """Reads the records of a file, one range after another.

    Args:
        file: The file.
        piece: Most bytes of a line that are read at once. Ranges must be at least four
            times as long.
    """

    def __init__(self, file: TextFile, piece: int) -> None:
        file.check_unchanged()
        self.file, self.piece = file, piece
        self.stream = ByteStream(file.path, file.compression)
        self.at_end = False
        self._taken, self._checksum = 0, new_checksum()

    def close(self) -> None:
        """Close the file."""
        self.stream.close()

    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield the records that begin in the range start:end.

        Raises:
            ValueError: [EL205] A record is too long. [EL220] A Doc is damaged.
            OSError: [EL030] The file is damaged.
        """
        raise NotImplementedError

    def take_checksum(self) -> str:
        """Return the checksum of the bytes that were read since the last call."""
        found, self._checksum = self._checksum, new_checksum()
        return found.hexdigest()

    @property
    def packed_size(self) -> float:
        """Number of bytes on the disk that hold the records that were read."""
        return self._taken * self.stream.raw_position / max(1, self.stream.end)

    def _take(self, start: int, stop: int) -> bytes:
        data = self.stream.read(start, stop)
        self._checksum.update(data)
        self._taken += len(data)
        self.at_end = not self.stream.read(stop, stop + 1)
        return data


class Lines(Source):
    """Text with one document per line, or with one document."""

    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield lines, and long lines in pieces. Blank lines are left out. If the file
        is one document, yield pieces that end at the end of a line if possible."""
        self.stream.skip_to(max(0, start - 1))
        first, stop = self._cut(start), self._cut(end)
        begins = first == 0 or self.stream.read(first - 1, first) == b"\n"
        is_document = self.file.document is not None
        data, at = self._take(first, stop), 0
        while at < len(data):
            until = self._end_of_piece(data, at, is_document)
            piece = data[at:until]
            if is_document:
                yield Record(first + at, first + at == 0, piece)
                at = until
                continue
            ends = piece.endswith(b"\n")
            is_whole = begins and (ends or (self.at_end and until == len(data)))
            if piece.strip() or not is_whole:
                yield Record(first + at, begins, piece)
                begins = ends
            at = until

    def _cut(self, position: int) -> int:
        """Return the place where a range that ends at a position really ends: the next
        begin of a line or, if the line is long, of a word or a character."""
        if not position:
            return 0
        for mark in (_NEWLINE, _SPACE):
            end = self.stream.find(mark, position, self.piece)
            if end >= 0:
                return end
        return position + _rest_of_character(self.stream.read(position, position + 3))

    def _end_of_piece(self, data: bytes, start: int, of_lines: bool) -> int:
        stop = start + self.piece
        if of_lines and stop < len(data):
            newline = data.rfind(b"\n", start, stop)
        else:
            newline = -1 if of_lines else data.find(b"\n", start, stop)
        if newline >= 0 or stop >= len(data):
            return newline + 1 or len(data)
        space = data.rfind(b" ", start, stop)
        return space + 1 or stop + _rest_of_character(data[stop : stop + 3])


def _rest_of_character(data: bytes) -> int:
    """Return the number of first bytes that belong to an earlier UTF-8 character."""
    return [*(byte & 0xC0 == 0x80 for byte in data), False].index(False)


class Records(Source):
    """JSON lines, or CoNLL-U sentences that blank lines separate."""

    def __init__(self, file: TextFile, piece: int) -> None:
        super().__init__(file, piece)
        self._mark = _NEWLINE if file.kind == "jsonl" else _BLANK_LINES

    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield whole records. Blank records are left out."""
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
            line = line_of(self.file, start)
            problem = f"a record has more than {MAX_RECORD:,} bytes"
            said = {"path": self.file.path, "line": line, "problem": problem}
            raise Errors.EL205(**said)
        return end if end >= 0 else self.stream.end


class Docs(Source):
    """Docs of a `.spacy` file, which spaCy reads at once. Ranges count characters."""

    def __init__(self, file: TextFile, piece: int) -> None:
        super().__init__(file, piece)
        try:
            with parsing(Errors.EL220, file.path):
                docs = read_docs(self._blocks())
        except BaseException:
            self.close()
            raise
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

    def _each(self, docs: Any) -> Iterator[Any]:
        from spacy.vocab import Vocab

        with parsing(Errors.EL220, self.file.path):
            yield from docs.get_docs(Vocab())


def read_docs(blocks: Iterable[bytes]) -> "DocBin":
    """Parse a `.spacy` file, which is given in blocks. Its size is counted before spaCy
    unpacks it. Any exception means that the file is damaged."""
    from spacy.tokens import DocBin

    unpack, size, read = zlib.decompressobj(), 0, bytearray()
    for block in blocks:
        read += block
        left = block
        while left:
            size += len(unpack.decompress(left, CHUNK))
            left = unpack.unconsumed_tail
            if size > MAX_DOCS:
                raise ValueError(f"its Docs take more than {MAX_DOCS:,} bytes")
    return DocBin().from_bytes(bytes(read))


def open_source(file: TextFile, piece: int = MAX_PIECE) -> Source:
    """Open a text file.

    Raises:
        ValueError: [EL204] The file was changed since it was described. [EL220] Its
            Docs are damaged.
        OSError: [EL030] It can't be read.
    """
    kinds = {"text": Lines, "spacy": Docs}
    return kinds.get(file.kind, Records)(file, piece)


def line_of(file: TextFile, position: int) -> int:
    """Return the number of the line at a position of the unpacked file, from 1, for
    messages. The file is read again up to the position."""
    line, at = 1, 0
    with closing(ByteStream(file.path, file.compression)) as stream:
        while at < position:
            stream.skip_to(at)
            data = stream.read(at, min(position, at + CHUNK))
            if not data:
                break
            line, at = line + data.count(b"\n"), at + len(data)
    return line
