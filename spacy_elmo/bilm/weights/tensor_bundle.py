"""TensorFlow's checkpoints ("tensor bundles"), read without TensorFlow.

`PREFIX.index` lists the arrays, and files such as `PREFIX.data-00000-of-00001` hold
them. The index is a table of LevelDB: blocks of keys and values in order, a block that
lists these blocks, and a footer. A key is the name of an array. Its value is a protocol
buffer with type, shape, data file, offset and checksum. The key "" has a header. Every
block and every array has a CRC32C.

Sources: LevelDB's doc/table_format.md, snappy's format_description.txt, TensorFlow's
tensor_bundle.proto, tensor_shape.proto and types.proto.
"""

import math
import struct
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np

from ...errors import Errors
from ...files import decode, reading

INDEX = ".index"
FORMAT = "a checkpoint of TensorFlow"
MAX_INDEX = 4 << 20  # bytes of an index, and of its blocks and names once unpacked
MAX_NAME = 4096  # bytes of a name
MAX_AXES = 8  # of an array
MAX_SHARDS = 10_000  # data files
_TOO_LARGE = f"its blocks have more than {MAX_INDEX:,} bytes"
_MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
_FOOTER = 48  # bytes
_PLAIN, _SNAPPY = 0, 1
# TensorFlow's numbers of the types that weights have. Arrays of other types are not
# read.
_DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<f4"),
    2: np.dtype("<f8"),
    19: np.dtype("<f2"),
}


class Entry(NamedTuple):
    """The entry of an array in the index.

    Attributes:
        dtype: Dtype; None for types that weights don't have.
        shape: Shape.
        shard: Number of the data file.
        offset: First byte in that file.
        size: Number of bytes. It is 0 for a partitioned variable, whose parts have
            entries of their own.
        crc: Masked CRC32C of these bytes.
    """

    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc: int


class TensorBundle:
    """A checkpoint. Its index is read and checked at once.

    Args:
        prefix: Path of the checkpoint as TensorFlow names it, without `.index`.

    Attributes:
        path: Path of the index.
        entries: The entries of the index by the names of the arrays.

    Raises:
        ValueError: [EL002] The index can't be read.
    """

    def __init__(self, prefix: Path) -> None:
        self.path = prefix.with_name(prefix.name + INDEX)
        with reading(self.path, Errors.EL002, max_bytes=MAX_INDEX, format=FORMAT):
            values = _read_table(self.path.read_bytes())
            n_shards = _read_header(values.pop(b"", b""))
            # The names of slices of partitioned variables are not text.
            self.entries = {
                name.decode("utf-8", "backslashreplace"): _read_entry(value)
                for name, value in values.items()
            }
        self._shards = [
            prefix.with_name(f"{prefix.name}.data-{i:05}-of-{n_shards:05}")
            for i in range(n_shards)
        ]

    def shapes(self, names: Iterable[str]) -> dict[str, tuple[int, ...]]:
        """Check that some arrays can be read, and return their shapes by name.

        Raises:
            ValueError: [EL002] A data file is missing. [EL009] An array can't be read,
                or all together are larger than their data.
        """
        found = {name: self.entries[name] for name in names}
        left: dict[int, int] = {}  # bytes of each data file that no array has taken
        for name, entry in found.items():
            if problem := self._problem(entry, left):
                raise Errors.EL009(name=name, path=self.path, problem=problem)
        return {name: entry.shape for name, entry in found.items()}

    def _problem(self, entry: Entry, left: dict[int, int]) -> str | None:
        if entry.dtype is None:
            return "not of floating-point numbers"
        if entry.size == 0 < math.prod(entry.shape):
            return "stored in slices, as a partitioned variable"
        if entry.size != math.prod(entry.shape) * entry.dtype.itemsize:
            return f"of {entry.size} bytes, for the shape {entry.shape}"
        if entry.shard >= len(self._shards):
            return "in a data file that does not exist"
        path = self._shards[entry.shard]
        with reading(path, Errors.EL002, format=FORMAT):
            n_bytes = path.stat().st_size
        left[entry.shard] = left.get(entry.shard, n_bytes) - entry.size
        if entry.offset + entry.size > n_bytes or left[entry.shard] < 0:
            return "larger than its data in the file"
        return None

    def read(self, name: str) -> np.ndarray:
        """Read an array that `shapes` has checked. Raises ValueError [EL002] if its
        checksum is wrong."""
        entry = self.entries[name]
        path = self._shards[entry.shard]
        with reading(path, Errors.EL002, format=FORMAT), path.open("rb") as file:
            file.seek(entry.offset)
            numbers = np.fromfile(file, entry.dtype, math.prod(entry.shape))
            _check_crc(numbers.view(np.uint8), entry.crc, f"array '{name}'")
            return numbers.reshape(entry.shape)


def latest(folder: Path) -> Path | None:
    """Return the prefix of the newest checkpoint, which a file `checkpoint` in the
    folder names, or None if there is no such file. Only the name counts: the path may
    be from another machine. Raises ValueError [EL002] if the file can't be read."""
    path = folder / "checkpoint"
    if not path.exists():
        return None
    with reading(path, Errors.EL002, max_bytes=MAX_INDEX, format=FORMAT):
        for line in decode(path.read_bytes()).splitlines():
            key, _, value = line.partition(":")
            name = value.strip().strip('"').replace("\\", "/").rpartition("/")[2]
            if key.strip() == "model_checkpoint_path" and name:
                return folder / name
        raise ValueError("it names no checkpoint")


# -- bytes ------------------------------------------------------------------------


def _take(stream: BinaryIO, n: int) -> bytes:
    """Read n bytes. Raises ValueError if there are fewer."""
    data = stream.read(min(n, MAX_INDEX))
    if len(data) < n:
        raise ValueError("it ends too early")
    return data


def _varint(stream: BinaryIO) -> int:
    """Read a number in groups of seven bits, the lowest first."""
    value = 0
    for shift in range(0, 64, 7):
        (byte,) = _take(stream, 1)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise ValueError("a number has more than 64 bits")


def _check_crc(data: bytes | np.ndarray, masked: int, what: str) -> None:
    """Raise ValueError unless the CRC32C of bytes equals a stored one, which LevelDB
    has masked."""
    crc = google_crc32c.value(data)
    rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    if (rotated + 0xA282EAD8) & 0xFFFFFFFF != masked:
        raise ValueError(f"the checksum of {what} is wrong")


# -- the table of LevelDB ---------------------------------------------------------


def _read_table(data: bytes) -> dict[bytes, bytes]:
    """Return the values of a table by their keys."""
    if data[-8:] != _MAGIC:
        raise ValueError("it has no footer of a table; it may be cut off")
    footer = BytesIO(data[-_FOOTER:])
    for _ in range(2):  # the handle of a block that TensorFlow leaves empty
        _varint(footer)
    pairs: list[tuple[bytes, bytes]] = []
    left = MAX_INDEX
    for _, handle in _read_entries(_read_block(data, footer, left)):
        block = _read_block(data, BytesIO(handle), left)
        left -= len(block)
        for key, value in _read_entries(block):
            left -= len(key)
            if left < 0:
                raise ValueError(_TOO_LARGE)
            if pairs and key <= pairs[-1][0]:
                raise ValueError("its keys are not in order")
            pairs.append((key, value))
    return dict(pairs)


def _read_block(data: bytes, handle: BinaryIO, most: int) -> bytes:
    """Return the content of a block, whose handle has its offset and its size. Raises
    ValueError if it is damaged, or has more than `most` bytes."""
    start = _varint(handle)
    end = start + _varint(handle)
    if end + 5 > len(data):
        raise ValueError("a block is outside of the file")
    kind, crc = struct.unpack_from("<BI", data, end)
    _check_crc(data[start : end + 1], crc, "a block")
    if kind not in (_PLAIN, _SNAPPY):
        raise ValueError(f"a block is compressed in an unknown way ({kind})")
    if kind == _SNAPPY:
        return unpack_snappy(data[start:end], most)
    if end - start > most:
        raise ValueError(_TOO_LARGE)
    return data[start:end]


def _read_entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block. A key is stored as the number of bytes that
    it shares with the key before, and its other bytes."""
    n_restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (n_restarts + 1)
    if end < 0:
        raise ValueError("a block is damaged")
    stream, key = BytesIO(block[:end]), b""
    while stream.tell() < end:
        shared, n_more, n_value = (_varint(stream) for _ in range(3))
        if shared > len(key) or shared + n_more > MAX_NAME:
            raise ValueError("a key is damaged")
        key = key[:shared] + _take(stream, n_more)
        yield key, _take(stream, n_value)


def unpack_snappy(data: bytes, most: int) -> bytes:
    """Unpack raw snappy data. Raises ValueError if it is damaged, or has more than
    `most` bytes."""
    stream, out = BytesIO(data), bytearray()
    if (size := _varint(stream)) > most:
        raise ValueError(_TOO_LARGE)
    while stream.tell() < len(data):
        (tag,) = _take(stream, 1)
        kind, length = tag & 3, (tag >> 2) + 1
        if kind == 0:  # bytes that follow
            if length > 60:  # their number is in the next 1 to 4 bytes
                length = int.from_bytes(_take(stream, length - 60), "little") + 1
            out += _take(stream, length)
        else:  # a copy of earlier bytes, which may overlap itself
            distance = int.from_bytes(_take(stream, (1, 2, 4)[kind - 1]), "little")
            if kind == 1:
                length = (tag >> 2 & 7) + 4
                distance |= (tag >> 5) << 8
            if not 0 < distance <= len(out):
                raise ValueError("a packed block refers to missing bytes")
            start = len(out) - distance
            piece = out[start : start + length]
            out += (piece * (length // len(piece) + 1))[:length]
        if len(out) > size:
            raise ValueError("a packed block is longer than it says")
    if len(out) != size:
        raise ValueError("a packed block is shorter than it says")
    return bytes(out)


# -- protocol buffers -------------------------------------------------------------


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each field of a protocol buffer. A value is an
    integer, or bytes for strings and messages."""
    stream = BytesIO(message)
    while stream.tell() < len(message):
        number, kind = divmod(_varint(stream), 8)
        if kind == 0:
            yield number, _varint(stream)
        elif kind == 2:
            yield number, _take(stream, _varint(stream))
        elif size := {1: 8, 5: 4}.get(kind):
            yield number, int.from_bytes(_take(stream, size), "little")
        else:
            raise ValueError("an entry of the index is damaged")


def _read_header(message: bytes) -> int:
    """Return the number of data files in a BundleHeaderProto."""
    header = {1: 0, 2: 0, **dict(_fields(message))}
    if not 0 < header[1] <= MAX_SHARDS:
        raise ValueError(f"its header says {header[1]} data files")
    if header[2] != 0:
        raise ValueError("its numbers are big-endian")
    return int(header[1])


def _read_entry(message: bytes) -> Entry:
    """Parse a BundleEntryProto."""
    found = {1: 0, 2: b"", 3: 0, 4: 0, 5: 0, 6: 0, **dict(_fields(message))}
    shape = [dict(_fields(axis)).get(1, 0) for n, axis in _fields(found[2]) if n == 2]
    dtype, *place = (found[n] for n in (1, 3, 4, 5, 6))
    if not all(isinstance(number, int) for number in (dtype, *place, *shape)):
        raise ValueError("an entry of the index is damaged")
    if len(shape) > MAX_AXES:
        raise ValueError(f"an array has {len(shape)} axes")
    return Entry(_DTYPES.get(dtype), tuple(shape), *place)
