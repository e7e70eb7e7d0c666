"""The bytes of an input, unpacked and read forwards; few are held at a time."""

import re
from pathlib import Path
from typing import IO

from ..errors import Errors
from ..text.unpack import CHUNK, DAMAGED, UNPACK
from .checksums import Checksum


class ByteStream:
    """The unpacked bytes of a file.

    Args:
        path: The file.
        compression: Ending of its name, such as ".gz"; "" for none.

    Attributes:
        position: Position of the next byte that `take` returns, in what is unpacked.
            Nothing before the byte before it is looked at.
        checksum: Checksum of the bytes that were taken.

    Raises:
        OSError: [EL030] if it can't be read, here and in every method.
    """

    def __init__(self, path: Path, compression: str) -> None:
        self.path, self.position, self.checksum = path, 0, Checksum()
        self._buffer, self._start, self._ended = bytearray(), 0, False
        try:
            self._raw: IO[bytes] = path.open("rb")
        except OSError as error:
            raise OSError(Errors.EL030.format(path=path, error=error)) from error
        unpack = UNPACK.get(compression)
        self._is_packed = unpack is not None
        self._file = self._raw if unpack is None else unpack(self._raw)

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    @property
    def raw_position(self) -> int:
        """How many bytes of the file, as they are on the disk, have been read."""
        return self._raw.tell()

    @property
    def end(self) -> int:
        """How far the input has been read, in what is unpacked."""
        return self._start + len(self._buffer)

    @property
    def at_end(self) -> bool:
        """Whether there is no byte left to take."""
        return not self.peek(self.position, 1)

    def skip_to(self, position: int) -> None:
        """Leave out all bytes before a position."""
        if not self._is_packed:
            self._raw.seek(position)
            self._buffer.clear()
            self._start = self.position = position
            return
        while self.end < position and not self._ended:
            excess = max(0, len(self._buffer) - CHUNK)
            del self._buffer[:excess]
            self._start += excess
            self._grow()
        self.position = min(position, self.end)

    def search(self, pattern: "re.Pattern[bytes]", start: int, length: int) -> int:
        """Return where the first match in start:start + length ends, or -1."""
        limit = start + length
        while True:
            end = min(limit, self.end)
            first = start - self._start
            match = pattern.search(self._buffer, first, end - self._start)
            found = -1 if match is None else match.end() + self._start
            if -1 < found < self.end or end == limit or self._ended:
                return found
            self._grow()

    def peek(self, start: int, length: int) -> bytes:
        """Return the bytes start:start + length, fewer where the input ends."""
        while self.end < start + length and not self._ended:
            self._grow()
        first = start - self._start
        return bytes(self._buffer[first : first + length])

    def take(self, until: int) -> bytes:
        """Return the bytes from the position to `until`, or to the input's end."""
        data = self.peek(self.position, until - self.position)
        self.position += len(data)
        self.checksum.add(data)
        excess = self.position - self._start - 1
        if excess > CHUNK:
            del self._buffer[:excess]
            self._start += excess
        return data

    def _grow(self) -> None:
        try:
            data = self._file.read(CHUNK)
        except DAMAGED as error:
            raise OSError(Errors.EL030.format(path=self.path, error=error)) from error
        self._buffer += data
        self._ended = not data
