"""A shard as one safetensors file, whose vectors are read where they lie on the disk.

The header has a fixed size, so that it can be written last. It is written in one way
only, so that every change to it is found.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import Errors
from ...files import bytes_of, new_checksum, reading
from ...registry import registry
from ..shard import ROWS_AT_ONCE, Shard

HEADER_BYTES = 1 << 13
METADATA = "__metadata__"
TYPES = {
    "float32": "F32",
    "float16": "F16",
    "int8": "I8",
    "uint8": "U8",
    "int32": "I32",
    "int64": "I64",
}


class ShardWriter:
    """Writes rows of one type and shape to a new file, block by block, then everything
    else at once."""

    def __init__(self, path: Path, dtype: np.dtype, row_shape: tuple[int, ...]) -> None:
        self._file = path.open("xb")
        self._file.write(b" " * HEADER_BYTES)
        self._dtype, self._row_shape, self.n_rows = dtype, row_shape, 0
        self._checksum = new_checksum()

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, rows: np.ndarray) -> None:
        """Write the next rows."""
        data = bytes_of(rows)
        self._file.write(data)
        self._checksum.update(data)
        self.n_rows += len(rows)

    def finish(
        self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> None:
        """Write all other arrays and the header, with the checksum of every array."""
        shape, digest = (self.n_rows, *self._row_shape), self._checksum
        said = {"vectors": _said(self._dtype, shape, digest)}
        for name, array in arrays.items():
            data = bytes_of(array)
            self._file.write(data)
            said[name] = _said(array.dtype, array.shape, new_checksum(data))
        self._file.seek(0)
        self._file.write(pack_header({**header, "arrays": said}))


def _said(dtype: np.dtype, shape: tuple[int, ...], digest: Any) -> dict[str, Any]:
    found = digest.hexdigest()
    return {"dtype": dtype.name, "shape": list(shape), "checksum": found}


def pack_header(header: Mapping[str, Any]) -> bytes:
    """Return the beginning of a file with these arrays and this metadata."""
    start, table = 0, {}
    for name, said in header["arrays"].items():
        dtype, shape = TYPES[said["dtype"]], said["shape"]
        offsets = [start, start + _size(said)]
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        start = offsets[1]
    text = json.dumps(header, separators=(",", ":"))
    checksum = new_checksum(text.encode()).hexdigest()
    metadata = {"spacy_elmo": text, "checksum": checksum}
    packed = json.dumps({METADATA: metadata, **table}, separators=(",", ":")).encode()
    room = HEADER_BYTES - 8
    if len(packed) > room:
        raise ValueError("its header is too long")
    return room.to_bytes(8, "little") + packed.ljust(room)


def _size(said: Mapping[str, Any]) -> int:
    shape = said["shape"]
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"an array of the shape {shape}")
    return int(np.dtype(said["dtype"]).itemsize * np.prod(shape, dtype=object))


def _read_header(path: Path) -> dict[str, Any]:
    """Return the header, if it is exactly as it was written."""
    with path.open("rb") as file:
        data = file.read(HEADER_BYTES)
    if len(data) < HEADER_BYTES:
        raise ValueError("it is too short")
    header: dict[str, Any] = json.loads(json.loads(data[8:])[METADATA]["spacy_elmo"])
    if pack_header(header) != data:
        raise ValueError("its header was changed")
    return header


@registry.sinks("safetensors")
class Safetensors:
    """Vectors and everything else in one file, read where they lie on the disk."""

    suffix = ".safetensors"

    def check(self, dtype: str, pool: str) -> None:
        """Accept everything."""

    def write(self, shard: Shard, path: Path) -> None:
        """Write a shard to a new file."""
        said = shard.header["arrays"]["vectors"]
        dtype, row_shape = np.dtype(said["dtype"]), tuple(said["shape"][1:])
        with ShardWriter(path, dtype, row_shape) as writer:
            for start in range(0, shard.n_rows, ROWS_AT_ONCE):
                stop = min(start + ROWS_AT_ONCE, shard.n_rows)
                writer.add(shard.read_rows(start, stop))
            writer.finish(shard.header, shard.arrays)

    def read(self, path: Path) -> Shard:
        """Map a file into memory. Raises ValueError [EL208]."""
        with reading(path, Errors.EL208):
            header = _read_header(path)
            arrays, start = {}, HEADER_BYTES
            sizes = [_size(said) for said in header["arrays"].values()]
            if path.stat().st_size != HEADER_BYTES + sum(sizes):
                raise ValueError("its size is not what its header says")
            mapped = np.memmap(path, np.uint8, mode="r")
            for (name, said), size in zip(header["arrays"].items(), sizes):
                part = mapped[start : start + size].view(np.ndarray)
                arrays[name] = part.view(said["dtype"]).reshape(said["shape"])
                start += size
            vectors = arrays.pop("vectors")
        return Shard(header, arrays, lambda start, stop: vectors[start:stop])
