"""Checksums of arrays and texts."""

import hashlib
from typing import Any

import numpy as np


class Checksum:
    """BLAKE2b of 16 bytes."""

    def __init__(self, data: bytes | memoryview = b"") -> None:
        self._digest = hashlib.blake2b(data, digest_size=16)

    def add(self, data: bytes | memoryview) -> None:
        """Take in the next bytes."""
        self._digest.update(data)

    def hexdigest(self) -> str:
        """Return the checksum in hexadecimal."""
        return self._digest.hexdigest()


def bytes_of(array: np.ndarray) -> memoryview:
    """Return the bytes of an array, without a copy where it is contiguous."""
    contiguous: Any = np.ascontiguousarray(array)
    return memoryview(contiguous).cast("B") if array.size else memoryview(b"")
