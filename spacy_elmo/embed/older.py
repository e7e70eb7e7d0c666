"""Shards that version 0.2 stored as Parquet or HDF5. They can be read, verified and
exported; newer ones are safetensors."""

import json
import zlib
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..errors import Errors
from ..files import parsing, reading
from .shard import Shard, read_shard

ROWS = 8192  # of a row group of Parquet


def read_parquet(path: Path) -> Shard:
    """Open a file of Parquet, whose footer has the header and the offsets, compressed.

    Raises:
        ValueError: [EL208] if it is damaged.
        ImportError: [EL211] if pyarrow is missing.
    """
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise Errors.EL211(name="pyarrow", extra="arrow", error=error) from error
    with reading(path, Errors.EL208):
        file = pq.ParquetFile(path)
        footer = json.loads(file.schema_arrow.metadata[b"spacy_elmo"])
        header = footer.pop("header")
        said = header["arrays"]
        arrays = {n: _unpacked(footer[n], said[n]) for n in footer}
        if "scales" in said:
            scales = _flat(file.read(["scale"]).column("scale"))
            arrays["scales"] = scales.reshape(said["scales"]["shape"])
        if "token_text" in said:
            arrays |= _tokens(file.read(["token", "start", "end"]))
        shape = said["vectors"]["shape"][1:]

    def read_rows(start: int, stop: int) -> np.ndarray:
        groups = range(start // ROWS, min(-(-stop // ROWS), file.num_row_groups))
        with parsing(Errors.EL208, path):
            column = file.read_row_groups([*groups], ["vector"]).column("vector")
            rows = _flat(column).reshape(-1, *shape)
        skip = start - ROWS * groups.start
        return rows[skip : skip + stop - start]

    return Shard(header, arrays, read_rows)


def _unpacked(packed: str, said: dict[str, Any]) -> np.ndarray:
    """Return an array of the footer. Raises ValueError if it is not as long as the
    header says."""
    n_bytes = np.dtype(said["dtype"]).itemsize * int(np.prod(said["shape"]))
    # One byte more than there should be: never as many as a file may claim.
    data = zlib.decompressobj().decompress(b64decode(packed), n_bytes + 1)
    if len(data) != n_bytes:
        raise ValueError("an array in its footer has another size than its header says")
    return np.frombuffer(data, dtype=said["dtype"])


def _flat(column: Any) -> np.ndarray:
    flat = column.combine_chunks().flatten()
    return np.asarray(flat.to_numpy(zero_copy_only=False))


def _tokens(table: Any) -> dict[str, np.ndarray]:
    texts = [text.encode("utf-8") for text in table.column("token").to_pylist()]
    lengths = np.array([0, *map(len, texts)], dtype=np.int64)
    return {
        "token_text": np.frombuffer(b"".join(texts), dtype=np.uint8),
        "token_text_offsets": np.cumsum(lengths),
        "token_starts": table.column("start").to_numpy(),
        "token_ends": table.column("end").to_numpy(),
    }


def read_hdf5(path: Path) -> Shard:
    """Open a file of HDF5, whose attributes are the header and the other arrays. Raises
    ValueError [EL208] if it is damaged."""
    with reading(path, Errors.EL208):
        file = h5py.File(path, "r")
        header = json.loads(file.attrs["header"])
        arrays = {}
        for name in [name for name in header["arrays"] if name != "vectors"]:
            found: Any = file.attrs[name]
            empty = isinstance(found, h5py.Empty)
            arrays[name] = np.zeros(0, found.dtype) if empty else found
        offsets = arrays["sentence_offsets"]
        vectors = header["arrays"]["vectors"]

    def read_rows(start: int, stop: int) -> np.ndarray:
        first = int(np.searchsorted(offsets, start, "right")) - 1
        last = int(np.searchsorted(offsets[:-1], stop, "left"))
        with parsing(Errors.EL208, path):
            rows = [file[str(n)][...] for n in range(first, last)]
            rows = [each.swapaxes(0, 1) if each.ndim > 2 else each for each in rows]
            empty = np.zeros((0, *vectors["shape"][1:]), vectors["dtype"])
            found = np.concatenate([empty, *rows])
        skip = start - int(offsets[first])
        return found[skip : skip + stop - start]

    return Shard(header, arrays, read_rows)


READERS: dict[str, Callable[[Path], Shard]] = {
    "safetensors": read_shard,
    "parquet": read_parquet,
    "hdf5": read_hdf5,
}
