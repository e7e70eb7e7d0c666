"""Checksums of bytes and arrays: BLAKE2b of 16 bytes."""

import hashlib
from functools import partial
from typing import Any

import numpy as np

new_checksum = partial(hashlib.blake2b, digest_size=16)


def bytes_of(array: np.ndarray) -> memoryview:
    """Return the bytes of an array, without a copy where it is contiguous."""
    contiguous: Any = np.ascontiguousarray(array)
    return memoryview(contiguous).cast("B") if array.size else memoryview(b"")
