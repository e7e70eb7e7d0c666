"""The bytes of files, decompressed in bounded memory."""

import bz2
import gzip
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
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


def _read(file: Any) -> Iterator[bytes]:
    return iter(partial(file.read, CHUNK), b"")


def _read_streams(
    file: IO[bytes], new_decoder: Callable[[], Any], padding: bytes = b""
) -> Iterator[bytes]:
    """Yield the decompressed bytes of all streams of a file, one after another.

    It replaces `bz2.BZ2File`, which ends silently if a later stream is damaged, and
    `lzma.LZMAFile`, which takes as much memory as a file asks for.

    Args:
        file: The compressed file.
        new_decoder: Returns a decoder for the next stream.
        padding: A byte that may follow a stream.
    """
    packed = file.read(CHUNK)
    while True:
        decoder = new_decoder()
        while not decoder.eof:
            packed = packed or (file.read(CHUNK) if decoder.needs_input else b"")
            if decoder.needs_input and not packed:
                raise EOFError("the file ends too soon")
            yield decoder.decompress(packed, CHUNK)
            packed = b""
        packed = decoder.unused_data.lstrip(padding)
        while not packed and (more := file.read(CHUNK)):
            packed = more.lstrip(padding)
        if not packed:
            return


_new_xz = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
# Ending of a file's name -> the function that yields its decompressed bytes.
UNPACK: dict[str, Callable[[IO[bytes]], Iterator[bytes]]] = {
    "": _read,
    ".gz": lambda file: _read(gzip.GzipFile(fileobj=file)),
    ".xz": partial(_read_streams, new_decoder=_new_xz, padding=b"\0"),
    ".bz2": partial(_read_streams, new_decoder=bz2.BZ2Decompressor),
    ".zst": lambda file: _read(zstd.ZstdFile(file)),
}


class ByteStream:
    """The decompressed bytes of a file. Few of them are in memory at a time. Every
    method raises OSError [EL030] if the file is damaged.

    Args:
        path: The file.
        compression: A key of UNPACK.
    """

    def __init__(self, path: str, compression: str = "") -> None:
        self.path, self._is_packed = path, compression != ""
        self._start, self._buffer, self.ended = 0, bytearray(), False
        self._damage: Exception | None = None
        self._raw = Path(path).open("rb")  # noqa: SIM115
        self._blocks = filter(None, UNPACK[compression](self._raw))

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
            self._start = self.end if self._is_packed else self._raw.seek(position)
            self._buffer.clear()
            self._grow()
        excess = min(position, self.end) - self._start
        del self._buffer[:excess]
        self._start += excess

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes start:stop, or fewer at the end of the file."""
        while self.end < stop and not self.ended:
            self._grow()
        with memoryview(self._buffer) as view:  # or a range would be copied twice
            return bytes(view[start - self._start : stop - self._start])

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
            data = b"" if self._damage else next(self._blocks, b"")
        except DAMAGED as error:
            self._damage = error
        if self._damage is not None:
            raise Errors.EL030(path=self.path, error=self._damage) from self._damage
        self._buffer += data
        self.ended = not data
