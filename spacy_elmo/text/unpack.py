"""The bytes of files, decompressed in bounded memory."""

import bz2
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

from ..errors import Errors

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CHUNK = 1 << 18  # bytes that are read at once
XZ_MEMORY = 1 << 27  # most bytes of memory for decompression: enough for `xz -9`
MAX_MARK = 3  # most bytes of a mark that separates records
DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error, zstd.ZstdError)


class StreamsFile(io.RawIOBase):
    """Reads all compressed streams of a file, one after another.

    It replaces `bz2.BZ2File`, which ends silently if a later stream is damaged, and
    `lzma.LZMAFile`, which takes as much memory as a file asks for.

    Args:
        file: The compressed file.
        new_decoder: Returns a decoder for the next stream.
        padding: A byte that may follow a stream.
    """

    def __init__(
        self, file: IO[bytes], new_decoder: Callable[[], Any], padding: bytes = b""
    ) -> None:
        self._file, self._new_decoder, self._padding = file, new_decoder, padding
        self._decoder = new_decoder()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Write the next bytes into a buffer. Return their number."""
        unpacked = b""
        while not unpacked:
            if self._decoder.eof:
                packed = self._next_stream()
                if not packed:
                    return 0
                self._decoder = self._new_decoder()
            else:
                packed = self._file.read(CHUNK) if self._decoder.needs_input else b""
                if self._decoder.needs_input and not packed:
                    raise EOFError("the file ends too soon")
            unpacked = self._decoder.decompress(packed, len(buffer))
        buffer[: len(unpacked)] = unpacked
        return len(unpacked)

    def _next_stream(self) -> bytes:
        """Return the first bytes of the next stream, or no bytes at the end of the
        file.
        """
        packed = bytes(self._decoder.unused_data).lstrip(self._padding)
        while not packed and (more := self._file.read(CHUNK)):
            packed = more.lstrip(self._padding)
        return packed


def _open_xz(file: IO[bytes]) -> IO[bytes]:
    new = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
    return io.BufferedReader(StreamsFile(file, new, padding=b"\0"), CHUNK)


def _open_bz2(file: IO[bytes]) -> IO[bytes]:
    return io.BufferedReader(StreamsFile(file, bz2.BZ2Decompressor), CHUNK)


# Ending of a file's name -> the function that opens the compressed file.
UNPACK: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".xz": _open_xz,
    ".bz2": _open_bz2,
    ".zst": zstd.ZstdFile,
}


class ByteStream:
    """The decompressed bytes of a file. Few of them are in memory at a time. Every
    method raises OSError [EL030] if the file is damaged.

    Args:
        path: The file.
        compression: A key of UNPACK; "" if the file is not compressed.
    """

    def __init__(self, path: str, compression: str = "") -> None:
        self.path = path
        self._start, self._buffer, self.ended = 0, bytearray(), False
        self._raw: IO[bytes] = Path(path).open("rb")  # noqa: SIM115
        unpack = UNPACK.get(compression)
        self._is_packed = unpack is not None
        self._file = self._raw if unpack is None else unpack(self._raw)

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    @property
    def end(self) -> int:
        """Position in the decompressed bytes up to which the file has been read."""
        return self._start + len(self._buffer)

    @property
    def raw_position(self) -> int:
        """Number of bytes that have been read from the disk."""
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
        """Return the bytes start:stop, or fewer at the end of the file."""
        while self.end < stop and not self.ended:
            self._grow()
        return bytes(self._buffer[start - self._start : stop - self._start])

    def find(self, mark: "re.Pattern[bytes]", position: int, length: int) -> int:
        """Return the end of the first match that ends at `position` or later, or -1 if
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
            raise Errors.EL030(path=self.path, error=error) from error
        self._buffer += data
        self.ended = not data
