"""Checksums of bytes and arrays: BLAKE2b of 16 bytes."""

from typing import Any

import numpy as np

from ..text import new_checksum

__all__ = ["bytes_of", "new_checksum"]


def bytes_of(array: np.ndarray) -> memoryview:
    """Return the bytes of an array, without a copy where it is contiguous."""
    contiguous: Any = np.ascontiguousarray(array)
    return memoryview(contiguous).cast("B") if array.size else memoryview(b"")
