"""Reading HDF5 files of unknown origin.

pyfive, which is written in Python, parses the groups of the file, its arrays and their
chunks. The HDF5 library of h5py is written in C, and has faults that a crafted file can
reach. Here all metadata are checked before memory is taken. Then the numbers are read
from their places in the file.
"""

import io
import math
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise, product
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyfive
from pyfive.dataobjects import DataObjects

from ...errors import Errors
from ...files import parsing, reading

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Largest ratio of an array's size to the size of its file; floats hardly shrink.
MAX_COMPRESSION = 100
# Most bytes of metadata that are read, and most names of arrays. A published model has
# about 40 names in 50 kB.
MAX_METADATA = 8 << 20
MAX_NAMES = 10_000
MAX_DEPTH = 20  # of groups in one another
_READ_COSTS = 32  # least number of bytes that a read counts as
_COMPACT, _CONTIGUOUS, _CHUNKED = range(3)  # storage layouts of HDF5
_NOT_HELD = "larger than its data in the file"
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


class _Piece(NamedTuple):
    """A chunk of an array: its bytes in the file, and its first element in the
    array."""

    offset: int
    size: int
    filter_mask: int
    start: tuple[int, ...]


class Hdf5File:
    """The arrays of an open HDF5 file. They are checked here, and read by `read`.

    Attributes:
        path: The path of the file.
        names: The names of its arrays.
    """

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self.path = file, path
        self._size = path.stat().st_size
        self._left = MAX_COMPRESSION * self._size  # bytes that more arrays may have
        self._arrays: dict[str, Any] = {}
        self._pieces: dict[str, list[_Piece]] = {}
        if file.read(len(_SIGNATURE)) != _SIGNATURE:
            raise ValueError("it does not begin as HDF5 files do")
        metadata = _Metadata(file, self._size)
        for name, array in _walk(pyfive.File(metadata), "", 0, path):
            if len(self._arrays) == MAX_NAMES:
                raise ValueError(f"it has more than {MAX_NAMES:,} arrays")
            with parsing(Errors.EL009, path, name=name):
                _check_kind(array, metadata)
                self._pieces[name] = self._place(array)
            self._arrays[name] = array
        self._check_places()
        self.names = list(self._arrays)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array."""
        return tuple(self._arrays[name].shape)

    def _place(self, array: Any) -> list[_Piece]:
        """Return the pieces of an array that are not among the metadata. Raises
        ValueError if the array is larger than its data."""
        n_bytes = math.prod(array.shape) * array.dtype.itemsize
        self._left -= n_bytes
        if self._left < 0:
            raise ValueError(_NOT_HELD)
        pieces = []
        if array.id.layout_class == _CONTIGUOUS and n_bytes:
            pieces = [_Piece(array.id.data_offset, n_bytes, 0, ())]
        elif array.id.layout_class == _CHUNKED and n_bytes:
            pieces = self._chunks(array)
        if any(piece.offset + piece.size > self._size for piece in pieces):
            raise ValueError(_NOT_HELD)
        return pieces

    def _chunks(self, array: Any) -> list[_Piece]:
        """Return the chunks of an array. Raises ValueError if one is missing, or they
        are too large."""
        shape, chunks, index = array.shape, array.chunks, array.id.index
        if len(chunks) != len(shape) or not all(chunks):
            raise ValueError(_NOT_HELD)
        chunk_bytes = math.prod(chunks) * array.dtype.itemsize
        n_pieces = math.prod(-(-n // c) for n, c in zip(shape, chunks))
        if chunk_bytes > MAX_COMPRESSION * self._size or len(index) != n_pieces:
            raise ValueError(_NOT_HELD)
        # Only now: `product` keeps all of each range in memory.
        starts = product(*(range(0, n, c) for n, c in zip(shape, chunks)))
        if not all(start in index for start in starts):
            raise ValueError(_NOT_HELD)
        return [
            _Piece(found.byte_offset, found.size, found.filter_mask, start)
            for start, found in index.items()
        ]

    def _check_places(self) -> None:
        """Raise ValueError [EL009] if two arrays share bytes. An array may have a
        second name, and would take memory twice, or the file is damaged."""
        places = sorted(
            (piece.offset, piece.offset + piece.size, name)
            for name, pieces in self._pieces.items()
            for piece in pieces
        )
        for (_, end, before), (start, _, name) in pairwise(places):
            if start < end:
                problem = f"stored where '{before}' is, too"
                raise Errors.EL009(name=name, path=self.path, problem=problem)

    def read(self, name: str) -> np.ndarray:
        """Read an array. Raises ValueError [EL002] if it is damaged."""
        with parsing(Errors.EL002, self.path, format="HDF5"):
            return self._read(name)

    def _read(self, name: str) -> np.ndarray:
        array, pieces = self._arrays[name], self._pieces[name]
        if array.id.layout_class == _COMPACT:
            return np.array(array[()])
        out: np.ndarray = np.empty(array.shape, dtype=array.dtype)
        for piece in pieces:
            self._file.seek(piece.offset)
            if array.id.layout_class == _CONTIGUOUS:
                numbers = np.fromfile(self._file, array.dtype, out.size)
                return numbers.reshape(array.shape)
            data = _unpacked(self._file.read(piece.size), piece, array)
            numbers = np.frombuffer(data, dtype=array.dtype).reshape(array.chunks)
            inside = zip(piece.start, array.chunks)
            part = out[tuple(slice(start, start + n) for start, n in inside)]
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


def _unpacked(data: bytes, piece: _Piece, array: Any) -> bytes:
    """Return the unpacked bytes of a chunk. Raises ValueError if it is damaged."""
    itemsize = array.dtype.itemsize
    size = math.prod(array.chunks) * itemsize
    for i, each in reversed([*enumerate(array.id.filter_pipeline or [])]):
        if piece.filter_mask >> i & 1:
            continue
        if each["filter_id"] == _DEFLATE:
            data = zlib.decompressobj().decompress(data, size + 1)
        else:
            if len(data) % itemsize:
                raise ValueError("a piece of an array is damaged")
            by_byte = np.frombuffer(data, dtype=np.uint8).reshape(itemsize, -1)
            data = by_byte.T.tobytes()
    if len(data) != size:
        raise ValueError("a piece of an array is damaged")
    return data
