"""Compressed files, unpacked in bounded memory."""

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable
from typing import IO, Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CHUNK = 1 << 18  # bytes that are read at once
XZ_MEMORY = 1 << 27  # bytes that unpacking may take: enough for `xz -9`
DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error, zstd.ZstdError)


class XzFile(io.RawIOBase):
    """Reads as `lzma.LZMAFile` does, which takes as much memory as a file asks for."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder: Any = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes. Return their number."""
        unpacked = b""
        while not unpacked:
            if self._decoder is None or self._decoder.eof:
                packed = getattr(self._decoder, "unused_data", b"")
                packed = packed.lstrip(b"\0") or self._file.read(CHUNK).lstrip(b"\0")
                if not packed:
                    return 0
                self._decoder = lzma.LZMADecompressor(memlimit=XZ_MEMORY)
            else:
                packed = self._file.read(CHUNK) if self._decoder.needs_input else b""
                if self._decoder.needs_input and not packed:
                    raise EOFError("the file ends too soon")
            unpacked = self._decoder.decompress(packed, len(buffer))
        buffer[: len(unpacked)] = unpacked
        return len(unpacked)


# Ending of a file's name -> what unpacks the file.
UNPACK: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".xz": lambda file: io.BufferedReader(XzFile(file), CHUNK),
    ".bz2": bz2.BZ2File,
    ".zst": zstd.ZstdFile,
}
