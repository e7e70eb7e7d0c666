"""Inputs: files as they were when the plan was made, and their bytes, unpacked."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..errors import Errors
from ..files import check_plain
from ..text import CHUNK, DAMAGED, UNPACK
from .keep import choose

KINDS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".conllu": "conllu",
    ".conll": "conllu",
    ".spacy": "spacy",
}
MAX_MARK = 3  # bytes of what separates records


@dataclass(frozen=True)
class Input:
    """A file as it was when the plan was made.

    Attributes:
        path: Where it is.
        kind: "text", "jsonl", "conllu" or "spacy".
        compression: Ending of its name, such as ".gz"; "" for none.
        size: Bytes.
        modified: Time of the last change in nanoseconds.
    """

    path: str
    kind: str
    compression: str
    size: int
    modified: int

    @property
    def is_sequential(self) -> bool:
        """Whether it can only be read from its beginning."""
        return self.compression != "" or self.kind == "spacy"

    def check_unchanged(self) -> None:
        """Raise ValueError [EL204] if size or time are not those of the plan."""
        found = describe(Path(self.path), self.kind)
        if (found.size, found.modified) != (self.size, self.modified):
            raise ValueError(Errors.EL204.format(path=self.path))


def describe(path: Path, kind: str | None = None) -> Input:
    """Return what a plan says of a file, whose kind is told by its name if it is None.

    Raises:
        ValueError: [EL207] for a kind that is not known.
        OSError: [EL030] if it can't be read.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in UNPACK else ""
    kind = kind or KINDS.get(suffixes[-1] if suffixes else "", "text")
    kinds = {"text", *KINDS.values()}
    if compression:
        kinds.discard("spacy")  # such a file is compressed already
    choose("kind", kind, sorted(kinds))
    try:
        check_plain(path)
        stat = path.stat()
        path.open("rb").close()
    except OSError as error:
        raise OSError(Errors.EL030.format(path=path, error=error)) from error
    where = str(path.resolve())
    return Input(where, kind, compression, stat.st_size, stat.st_mtime_ns)


class ByteStream:
    """The unpacked bytes of a file, of which few are held at a time. Every method can
    raise OSError [EL030]."""

    def __init__(self, source: Input) -> None:
        self.path = source.path
        self._start, self._buffer, self.ended = 0, bytearray(), False
        self._raw: IO[bytes] = Path(source.path).open("rb")  # noqa: SIM115
        unpack = UNPACK.get(source.compression)
        self._is_packed = unpack is not None
        self._file = self._raw if unpack is None else unpack(self._raw)

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    @property
    def end(self) -> int:
        """How far it has been read, in what is unpacked."""
        return self._start + len(self._buffer)

    @property
    def raw_position(self) -> int:
        """How many bytes of the file, as they are on the disk, have been read."""
        return self._raw.tell()

    def skip_to(self, position: int) -> None:
        """Forget all bytes before a position."""
        while self.end < position and not self.ended:
            if self._is_packed:
                self._start = self.end
            else:
                self._start = self._raw.seek(position)
            self._buffer.clear()
            self._grow()
        excess = min(position, self.end) - self._start
        del self._buffer[:excess]
        self._start += excess

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes start:stop, fewer where the input ends."""
        while self.end < stop and not self.ended:
            self._grow()
        return bytes(self._buffer[start - self._start : stop - self._start])

    def find(self, mark: "re.Pattern[bytes]", position: int, length: int) -> int:
        """Return where the first match ends that ends at a position or later, or -1 if
        there is none in position:position + length."""
        start = max(self._start, position - MAX_MARK)
        while True:
            known = min(self.end, position + length)
            places = start - self._start, known - self._start
            for match in mark.finditer(self._buffer, *places):
                end = match.end() + self._start
                if end >= position and (end < self.end or self.ended):
                    return end
            if self.ended or self.end > position + length:
                return -1
            self._grow()

    def _grow(self) -> None:
        try:
            data = self._file.read(CHUNK)
        except DAMAGED as error:
            raise OSError(Errors.EL030.format(path=self.path, error=error)) from error
        self._buffer += data
        self.ended = not data
