"""The kinds of file: how each is cut into records, and what a record holds.

A record is a line of text, a JSON object, a CoNLL-U sentence or a Doc. It belongs to
the range of the file in which it begins. A range really ends at the next end of a line
or record, which is found when the range is read. A line longer than a piece is cut
between words, and may span ranges.
"""

import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..errors import ElmoError, Errors
from ..files import new_checksum, parsing
from .contents import BadLine, Content, content_of_conllu, content_of_json
from .kinds import TextFile
from .tokens import Reading, sentences_of_doc
from .unpack import CHUNK, MAX_MARK, ByteStream

if TYPE_CHECKING:
    from spacy.tokens import Doc, DocBin

MAX_RECORD = 32 << 20  # most bytes of a JSON line or of a CoNLL-U sentence
MAX_PIECE = 1 << 19  # most bytes of a line that are read at once
MAX_DOCS = 1 << 30  # most bytes of the Docs of a file, which spaCy reads at once
BLOCK = 1 << 16  # bytes of them that are unpacked at once, to at most 64 MB
CHARACTERS_AT_ONCE = 1 << 17  # most characters of a text that are tokenized at once

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


class Source(ABC):
    """Reads the records of a file, one range after another.

    Args:
        file: The file.
        piece: Most bytes of a line that are read at once. Ranges must be at least four
            times as long.
    """

    error: ClassVar[type[ElmoError]]  # of a record that is not of this kind

    def __init__(self, file: TextFile, piece: int) -> None:
        file.check_unchanged()
        self.file, self.piece = file, piece
        self.stream = ByteStream(file.path, file.compression)
        self.at_end = False
        self._taken, self._checksum = 0, new_checksum()

    def close(self) -> None:
        """Close the file."""
        self.stream.close()

    @abstractmethod
    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield the records that begin in the range start:end.

        Raises:
            ValueError: [EL205] A record is too long. [EL220] A Doc is damaged.
            OSError: [EL030] The file is damaged.
        """

    def contents(
        self, start: int, end: int, reading: Reading, *, naive: bool = False
    ) -> Iterator[Content]:
        """Yield the contents of the records that begin in the range start:end, long
        texts in pieces.

        Args:
            start: Begin of the range, in bytes of the unpacked file.
            end: End of the range.
            reading: The settings, with the names of the fields of JSON lines.
            naive: Whether to read CoNLL-U and JSON as plans of format 2: tokens are
                placed in the text that they make.

        Raises:
            ValueError: [EL031] The file is not UTF-8. [EL040] A line is no JSON object
                with text. [EL205] A sentence is not CoNLL-U. [EL220] A Doc is damaged.
            OSError: [EL030] The file can't be read.
        """
        for record in self.read(start, end):
            try:
                content = self._content(record, reading, naive)
            except (ValueError, LookupError, TypeError, RecursionError) as error:
                raise self._refusal(record, error) from error
            position, begins, _ = record
            pieces = [None] if content.text is None else _cut(content.text)
            for i, piece in enumerate(pieces):
                yield content._replace(
                    text=piece, position=position, begins=begins and i == 0
                )

    @abstractmethod
    def _content(self, record: Record, reading: Reading, naive: bool) -> Content:
        """Return the content of a record. Any error of Python's own means that the
        record is damaged."""

    def _refusal(self, record: Record, error: Exception) -> ElmoError:
        """Return the coded error for a record that is damaged, with its place."""
        problem = error.args[0] if isinstance(error, KeyError) else error
        at, kind = record.position, self.error
        if isinstance(error, UnicodeDecodeError):
            at, kind = at + error.start, Errors.EL031
        line = line_of(self.file, at)
        line += error.number if isinstance(error, BadLine) else 0
        return kind(path=self.file.path, line=line, error=problem, problem=problem)

    def take_checksum(self) -> str:
        """Return the checksum of the bytes that were read since the last call."""
        found, self._checksum = self._checksum, new_checksum()
        return found.hexdigest()

    @property
    def packed_size(self) -> float:
        """Number of bytes on the disk that hold the records that were read."""
        return self._taken * self.stream.raw_position / max(1, self.stream.end)


class Ranges(Source):
    """Reads ranges of bytes, whose ends move to the next ends of records."""

    def _take(self, start: int, end: int) -> tuple[int, bytes]:
        """Return the place where a range really begins, and its bytes."""
        self.stream.skip_to(max(0, start - MAX_MARK))
        first, stop = (self._cut(place) if place else 0 for place in (start, end))
        data = self.stream.read(first, stop)
        self._checksum.update(data)
        self._taken += len(data)
        self.at_end = not self.stream.read(stop, stop + 1)
        return first, data

    @abstractmethod
    def _cut(self, position: int) -> int:
        """Return the place where a range that ends at a position really ends."""


def _cut(text: str) -> list[str]:
    """Cut a text after white space, into pieces of CHARACTERS_AT_ONCE characters or
    fewer."""
    cuts = [0]
    while len(text) - cuts[-1] > CHARACTERS_AT_ONCE:
        start, stop = cuts[-1], cuts[-1] + CHARACTERS_AT_ONCE
        middle = start + CHARACTERS_AT_ONCE // 2
        places = (text.rfind(space, middle, stop) + 1 for space in ("\n", " "))
        cuts.append(next(filter(None, places), stop))
    return [text[start:end] for start, end in pairwise([*cuts, len(text)])]


def _text_of(record: Record) -> str:
    """Return the text of a record, without the byte order mark of its file."""
    text: str = record.data.decode("utf-8")
    return text if record.position else text.removeprefix("\ufeff")


class Lines(Ranges):
    """Text with one document per line, or with one document."""

    error = Errors.EL031

    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield lines, and long lines in pieces. Blank lines are left out. If the file
        is one document, yield pieces that end at the end of a line if possible."""
        first, data = self._take(start, end)
        of_lines = self.file.document is None
        follows_line = of_lines and self.stream.read(first - 1, first) == b"\n"
        at, begins = 0, first == 0 or follows_line
        while at < len(data):
            until = self._end_of_piece(data, at)
            piece = data[at:until]
            ends = of_lines and (
                piece.endswith(b"\n") or (self.at_end and until == len(data))
            )
            if piece.strip() or not (begins and ends):
                yield Record(first + at, begins, piece)
                begins = ends
            at = until

    def _content(self, record: Record, reading: Reading, naive: bool) -> Content:
        text = _text_of(record)
        if "\0" in text:
            raise ValueError("a zero byte")
        return Content(text=text)

    def _cut(self, position: int) -> int:
        """A range ends at the next begin of a line or, if the line is long, of a word
        or a character."""
        for mark in (_NEWLINE, _SPACE):
            end = self.stream.find(mark, position, self.piece)
            if end >= 0:
                return end
        return position + _rest_of_character(self.stream.read(position, position + 3))

    def _end_of_piece(self, data: bytes, start: int) -> int:
        stop = start + self.piece
        if self.file.document is None:
            newline = data.find(b"\n", start, stop)
        else:
            newline = data.rfind(b"\n", start, stop) if stop < len(data) else -1
        if newline >= 0 or stop >= len(data):
            return newline + 1 or len(data)
        space = data.rfind(b" ", start, stop)
        return space + 1 or stop + _rest_of_character(data[stop : stop + 3])


def _rest_of_character(data: bytes) -> int:
    """Return the number of first bytes that belong to an earlier UTF-8 character."""
    return [*(byte & 0xC0 == 0x80 for byte in data), False].index(False)


class Records(Ranges):
    """Records that a mark ends, which are read as a whole."""

    mark: ClassVar["re.Pattern[bytes]"]

    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield whole records. Blank records are left out."""
        first, data = self._take(start, end)
        ends = (match.end() for match in self.mark.finditer(data))
        for at, until in pairwise(chain([0], ends, [len(data)])):
            if until - at > MAX_RECORD:
                raise self._too_long(first + at)
            record = data[at:until]
            if record.strip():
                yield Record(first + at, True, record)

    def _cut(self, position: int) -> int:
        """A range ends at the end of a record."""
        end = self.stream.find(self.mark, position, MAX_RECORD)
        if end < 0 and not self.stream.ended:
            raise self._too_long(position)
        return end if end >= 0 else self.stream.end

    def _too_long(self, position: int) -> Exception:
        line = line_of(self.file, position)
        problem = f"a record has more than {MAX_RECORD:,} bytes"
        return Errors.EL205(path=self.file.path, line=line, problem=problem)


class JsonLines(Records):
    """A JSON object on each line."""

    error, mark = Errors.EL040, _NEWLINE

    def _content(self, record: Record, reading: Reading, naive: bool) -> Content:
        return content_of_json(_text_of(record), reading, naive=naive)


class Conllu(Records):
    """Sentences of CoNLL-U, which blank lines separate."""

    error, mark = Errors.EL205, _BLANK_LINES

    def _content(self, record: Record, reading: Reading, naive: bool) -> Content:
        return content_of_conllu(_text_of(record), naive=naive)


class Docs(Source):
    """Docs of a `.spacy` file, which spaCy reads at once. Ranges count characters."""

    error = Errors.EL220

    def __init__(self, file: TextFile, piece: int) -> None:
        super().__init__(file, piece)
        try:
            with parsing(Errors.EL220, file.path):
                docs = _read_docs(self.stream.read(0, MAX_DOCS))
        except BaseException:
            self.close()
            raise
        self._docs, self._left, self._position = self._each(docs), len(docs), 0
        self._mean_bytes = self.stream.end / max(1, len(docs))

    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield Docs."""
        while self._left and self._position < end:
            (number, doc), at = next(self._docs), self._position
            self._position += len(doc.text) + 1
            self._left -= 1
            if at >= start:
                self._checksum.update(doc.text.encode("utf-8", "replace") + b"\0")
                self._taken += round(self._mean_bytes)
                yield Record(number, True, doc)
        self.at_end = not self._left

    def _content(self, record: Record, reading: Reading, naive: bool) -> Content:
        return Content(sentences=list(sentences_of_doc(record.data)))

    def _refusal(self, record: Record, error: Exception) -> ElmoError:
        return self.error(path=self.file.path, error=error)

    def _each(self, docs: "DocBin") -> Iterator[tuple[int, "Doc"]]:
        from spacy.vocab import Vocab

        with parsing(Errors.EL220, self.file.path):
            yield from enumerate(docs.get_docs(Vocab()))


def _read_docs(data: bytes) -> "DocBin":
    """Parse a `.spacy` file. Its size is counted before spaCy unpacks it. Any exception
    means that the file is damaged."""
    from spacy.tokens import DocBin

    unpack, size = zlib.decompressobj(), 0
    for start in range(0, len(data), BLOCK):
        size += len(unpack.decompress(data[start : start + BLOCK]))
        if size > MAX_DOCS:
            raise ValueError(f"its Docs take more than {MAX_DOCS:,} bytes")
    return DocBin().from_bytes(data)


SOURCES: dict[str, type[Source]] = {
    "text": Lines,
    "jsonl": JsonLines,
    "conllu": Conllu,
    "spacy": Docs,
}


def open_source(file: TextFile, piece: int = MAX_PIECE) -> Source:
    """Open a text file.

    Raises:
        ValueError: [EL204] The file was changed since it was described. [EL220] Its
            Docs are damaged.
        OSError: [EL030] It can't be read.
    """
    return SOURCES[file.kind](file, piece)


def line_of(file: TextFile, position: int) -> int:
    """Return the number of the line at a position of the unpacked file, from 1, for
    messages. The file is read again up to the position."""
    line, at = 1, 0
    with closing(ByteStream(file.path, file.compression)) as stream:
        while data := stream.read(at, min(position, at + CHUNK)):
            line, at = line + data.count(b"\n"), at + len(data)
            stream.skip_to(at)
    return line
