"""Reading HDF5 files of unknown origin.

pyfive, which is written in Python, parses the groups of the file, its arrays and their
chunks. The HDF5 library of h5py is written in C, and has faults that a crafted file can
reach. Here all metadata are checked before memory is taken. Then the numbers are read
from their places in the file.
"""

import io
import math
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyfive
from pyfive.dataobjects import DataObjects
from pyfive.h5d import StoreInfo

from ...errors import Errors
from ...files import parsing, reading

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Largest ratio of an array's size to the size of its file; floats hardly shrink.
MAX_COMPRESSION = 100
# Most bytes of metadata that are read, and most names of arrays. A published model has
# about 40 names in 50 kB.
MAX_METADATA = 8 << 20
MAX_NAMES = 10_000
_NOT_HELD = "larger than its data in the file"
_DAMAGED = "a piece of an array is damaged"
MAX_DEPTH = 20  # of groups in one another
_READ_COSTS = 32  # least number of bytes that a read counts as
_COMPACT, _CONTIGUOUS, _CHUNKED = range(3)  # storage layouts of HDF5
_DEFLATE, _SHUFFLE = 1, 2  # filters
# Bits of exponent and mantissa of IEEE 754, by the bytes of a number.
_IEEE = {2: (5, 10), 4: (8, 23), 8: (11, 52)}
_DATATYPE = 0x0003  # the message of an object's header that says its type


class _Metadata(io.RawIOBase):
    """A file of which pyfive can read a bounded number of bytes."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size, self._left = file, size, MAX_METADATA

    def read(self, size: int = -1) -> bytes:
        """Read bytes. Raises ValueError if too many were read before."""
        rest = max(0, self._size - self._file.tell())
        size = rest if size < 0 else min(size, rest)
        self._left -= max(size, _READ_COSTS)
        if self._left < 0:
            raise ValueError(f"more than {MAX_METADATA:,} bytes describe its arrays")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()


class Hdf5File:
    """The arrays of an open HDF5 file. They are checked here, and read by `read`.

    Attributes:
        path: The path of the file.
        names: The names of its arrays.
    """

    def __init__(self, file: io.BufferedReader, path: Path) -> None:
        self._file, self.path = file, path
        self._size = path.stat().st_size
        self._left = MAX_COMPRESSION * self._size  # bytes that more arrays may have
        self._arrays: dict[str, Any] = {}
        self._chunks: dict[str, list[StoreInfo]] = {}
        if file.read(len(_SIGNATURE)) != _SIGNATURE:
            raise ValueError("it does not begin as HDF5 files do")
        metadata = _Metadata(file, self._size)
        for name, array in _walk(pyfive.File(metadata), "", 0, path):
            if len(self._arrays) == MAX_NAMES:
                raise ValueError(f"it has more than {MAX_NAMES:,} arrays")
            with parsing(Errors.EL009, path, name=name):
                _check_kind(array, metadata)
                self._chunks[name] = self._chunks_of(array)
            self._arrays[name] = array
        self._check_places()
        self.names = list(self._arrays)

    def shapes(self, names: Iterable[str]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of some arrays by name."""
        return {name: tuple(self._arrays[name].shape) for name in names}

    def _chunks_of(self, array: Any) -> list[StoreInfo]:
        """Return the chunks of an array: the places of their bytes in the file, and of
        their first elements in the array. A contiguous array is one chunk. Raises
        ValueError if the array is larger than its data."""
        shape, itemsize = array.shape, array.dtype.itemsize
        n_bytes = math.prod(shape) * itemsize
        self._left -= n_bytes
        if self._left < 0:
            raise ValueError(_NOT_HELD)
        if n_bytes == 0 or array.id.layout_class == _COMPACT:
            return []  # a compact one is among the metadata
        if array.id.layout_class == _CHUNKED:
            chunks, index = array.chunks, array.id.index
        else:
            start = (0,) * len(shape)
            place = StoreInfo(start, 0, array.id.data_offset, n_bytes)
            chunks, index = shape, {start: place}
        is_held = (
            len(chunks) == len(shape)
            and all(chunks)
            and math.prod(chunks) * itemsize <= MAX_COMPRESSION * self._size
            and len(index) == math.prod(-(-n // c) for n, c in zip(shape, chunks))
            and all(
                chunk.byte_offset + chunk.size <= self._size
                and all(i < n and i % c == 0 for i, n, c in zip(start, shape, chunks))
                for start, chunk in index.items()
            )
        )
        if not is_held:
            raise ValueError(_NOT_HELD)
        return list(index.values())

    def _check_places(self) -> None:
        """Raise ValueError [EL009] if two arrays share bytes. An array may have a
        second name, and would take memory twice, or the file is damaged."""
        places = sorted(
            (chunk.byte_offset, chunk.byte_offset + chunk.size, name)
            for name, chunks in self._chunks.items()
            for chunk in chunks
        )
        for (_, end, before), (start, _, name) in pairwise(places):
            if start < end:
                problem = f"stored where '{before}' is, too"
                raise Errors.EL009(name=name, path=self.path, problem=problem)

    def read(self, name: str) -> np.ndarray:
        """Read an array. Raises ValueError [EL002] if it is damaged."""
        array = self._arrays[name]
        with parsing(Errors.EL002, self.path, format="HDF5"):
            if array.id.layout_class == _COMPACT:
                return np.array(array[()])
            out: np.ndarray = np.empty(array.shape, dtype=array.dtype)
            for chunk in self._chunks[name]:
                self._file.seek(chunk.byte_offset)
                if array.id.layout_class == _CONTIGUOUS:
                    if self._file.readinto(out.data) < out.nbytes:
                        raise ValueError(_DAMAGED)
                    continue
                data = _unpacked(self._file.read(chunk.size), chunk.filter_mask, array)
                numbers = np.frombuffer(data, dtype=array.dtype).reshape(array.chunks)
                place = zip(chunk.chunk_offset, array.chunks)
                inside: Any = ..., *(slice(i, i + n) for i, n in place)
                part = out[inside]
                part[...] = numbers[tuple(slice(n) for n in part.shape)]
            return out


@contextmanager
def open_file(path: Path) -> Iterator[Hdf5File]:
    """Open an HDF5 file to read.

    Raises:
        ValueError: [EL002] The file can't be read. [EL009] It has an array with links
            or external storage, which could reach other files of this machine, an array
            that is larger than its data, or one that is not floating-point numbers.
    """
    with ExitStack() as opened:
        with reading(path, Errors.EL002, format="HDF5"):
            file = opened.enter_context(path.open("rb"))
            try:
                arrays = Hdf5File(file, path)
            except AssertionError as error:  # pyfive asserts its expectations
                problem = "a part of it is damaged, or a link to another file"
                raise ValueError(problem) from error
        yield arrays


def _walk(group: Any, prefix: str, depth: int, path: Path) -> Iterator[tuple[str, Any]]:
    """Yield names and arrays of a group and of its groups, with None for a link."""
    if depth > MAX_DEPTH:
        raise ValueError(f"its groups are more than {MAX_DEPTH} deep, or in a circle")
    for key in group:
        name = prefix + key
        problem = "damaged, or of an unknown kind"
        with parsing(Errors.EL009, path, name=name, problem=problem):
            item = group.get_lazy_view(key)
        if item is None or item.name != f"/{name}":
            yield name, None
        elif isinstance(item, pyfive.Dataset):
            yield name, item
        elif isinstance(item, pyfive.Group):
            yield from _walk(item, name + "/", depth + 1, path)


def _check_kind(array: Any, metadata: _Metadata) -> None:
    """Raise ValueError if an array is not plain floating-point numbers in the file."""
    if array is None:
        raise ValueError("a link")
    if array.shape is None:
        raise ValueError("empty")
    if array.dtype.kind != "f":
        raise ValueError(f"of type {array.dtype}")
    if not _is_ieee(array, metadata):
        raise ValueError("of floating-point numbers that are not those of IEEE 754")
    filters = {each["filter_id"] for each in array.id.filter_pipeline or []}
    if not filters <= {_DEFLATE, _SHUFFLE}:
        raise ValueError("compressed in another way than by gzip")
    if array.id.layout_class not in (_COMPACT, _CONTIGUOUS, _CHUNKED):
        raise ValueError("stored in another file")


def _is_ieee(array: Any, metadata: _Metadata) -> bool:
    """Return whether numbers are those of IEEE 754. pyfive does not look: it would take
    bfloat16 for the 16-bit floats of NumPy."""
    place = array._dataobjects.offset  # noqa: SLF001  (it has no public name)
    header = DataObjects(metadata, place)
    start = header.find_msg_type(_DATATYPE)[0]["offset_to_message"]
    properties = header.msg_data[start + 8 : start + 20]
    return (properties[5], properties[7]) == _IEEE.get(array.dtype.itemsize)


def _unpacked(data: bytes, filter_mask: int, array: Any) -> bytes:
    """Return the unpacked bytes of a chunk. At most one byte more than the chunk has
    is unpacked. Raises ValueError if the chunk has another number of bytes."""
    itemsize = array.dtype.itemsize
    size = math.prod(array.chunks) * itemsize
    for i, each in reversed([*enumerate(array.id.filter_pipeline or [])]):
        if filter_mask >> i & 1:
            continue
        if each["filter_id"] == _DEFLATE:
            data = zlib.decompressobj().decompress(data, size + 1)
        elif len(data) % itemsize:
            raise ValueError(_DAMAGED)
        else:
            by_byte = np.frombuffer(data, dtype=np.uint8).reshape(itemsize, -1)
            data = by_byte.T.tobytes()
    if len(data) != size:
        raise ValueError(_DAMAGED)
    return data
