"""Compressed files, unpacked in bounded memory."""

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable
from functools import partial
from typing import IO, Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CHUNK = 1 << 18  # bytes that are read at once
XZ_MEMORY = 1 << 27  # bytes that unpacking may take: enough for `xz -9`
DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error, zstd.ZstdError)


class StreamsFile(io.RawIOBase):
    """Reads compressed streams, one after the other to the end of the file, in place of
    `bz2.BZ2File`, which ends in silence where a later stream is damaged, and
    `lzma.LZMAFile`, which takes as much memory as a file asks for. `padding` may follow
    a stream."""

    def __init__(
        self, file: IO[bytes], new_decoder: Callable[[], Any], padding: bytes = b""
    ) -> None:
        self._file, self._new_decoder, self._padding = file, new_decoder, padding
        self._decoder = new_decoder()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes. Return their number."""
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
        """Return how the next stream begins; nothing at the end of the file."""
        packed = bytes(self._decoder.unused_data).lstrip(self._padding)
        while not packed and (more := self._file.read(CHUNK)):
            packed = more.lstrip(self._padding)
        return packed


def _open_xz(file: IO[bytes]) -> IO[bytes]:
    new = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
    return io.BufferedReader(StreamsFile(file, new, padding=b"\0"), CHUNK)


def _open_bz2(file: IO[bytes]) -> IO[bytes]:
    return io.BufferedReader(StreamsFile(file, bz2.BZ2Decompressor), CHUNK)


# Ending of a file's name -> what unpacks the file.
UNPACK: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".xz": _open_xz,
    ".bz2": _open_bz2,
    ".zst": zstd.ZstdFile,
}
