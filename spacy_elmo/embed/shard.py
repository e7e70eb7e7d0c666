"""A shard: vectors, and the text that they belong to, in one safetensors file.

The arrays beside the vectors are those of COLUMNS.

Its header:
    plan, shard    hash of the plan, name of the shard
    processor      kind of processor that computed the vectors
    pool           what has a vector: token, sentence or doc
    counts         of documents, sentences, tokens and rows
    input          checksum of the records that were read
    continues      whether its first document began in the shard before
    last           whether it is the last shard of its job
    error          of rounding, as `Rounding` has it
    arrays         type, shape and checksum of each

The header has a fixed size, so that it can be written last, and one way to write it, so
that every change to it is found.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ElmoError, Errors
from ..files import bytes_of, new_checksum, reading
from .model import unpack

SUFFIX = ".safetensors"
ROWS_AT_ONCE = 2048  # rows of a write or of a check: 4 MB of 512 floats
HEADER_BYTES = 1 << 13  # size of a header; `pack_header` refuses larger ones
METADATA = "__metadata__"
# The arrays beside the vectors in the order of the file, with the types of `array`.
# Offsets have one entry more than there are parts. Behind these are the scales of int8.
COLUMNS = {
    "document_offsets": "q",  # number of the first token
    "document_positions": "q",  # where it begins in the input: byte, or number of a Doc
    "sentence_offsets": "q",  # number of the first token
    "document_ids_offsets": "q",  # where the id begins in document_ids
    "document_ids": "B",  # UTF-8
    "token_text_offsets": "q",  # where the text begins in token_text
    "token_text": "B",  # UTF-8
    "token_starts": "i",  # in characters of (the part of) the document
    "token_ends": "i",
}
TEXTS = ("document_ids", "token_text")
# Beginnings of the names of arrays that are left out, by what has a vector.
LEFT_OUT = {"token": (), "sentence": ("token",), "doc": ("token", "sentence")}
# Types of some entries of the header.
ENTRIES = {"processor": str, "input": str, "continues": bool, "last": bool}
TYPES = {
    "float32": "F32",
    "float16": "F16",
    "int8": "I8",
    "uint8": "U8",
    "int32": "I32",
    "int64": "I64",
}


@dataclass
class Rounding:
    """The error that rounding makes in some rows.

    Attributes:
        squared_error: Sum of the squared differences.
        squared_value: Sum of the squared values.
        largest: Largest difference.
    """

    squared_error: float
    squared_value: float
    largest: float

    def add(self, rows: np.ndarray, read_back: np.ndarray) -> None:
        """Add the error of some rows.

        Args:
            rows: The rows as they were computed.
            read_back: The same rows as they will be read from the file.
        """
        difference = rows - read_back
        self.squared_error += float(np.vdot(difference, difference))
        self.squared_value += float(np.vdot(rows, rows))
        largest = max(difference.max(), -difference.min())
        self.largest = max(self.largest, float(largest))


@dataclass(frozen=True)
class Shard:
    """An open shard.

    Attributes:
        header: Its plan, counts and checksums.
        arrays: The arrays beside the vectors, by name: ids and offsets of documents,
            offsets of sentences, text and places of tokens.
        read_rows: A function that returns rows start:stop in the type that is stored.
    """

    header: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    read_rows: Callable[[int, int], np.ndarray]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.header["arrays"]["vectors"]["shape"][0])

    def array(self, name: str) -> np.ndarray:
        """Return an array. Raises ValueError [EL218] if it was left out, since neither
        tokens nor sentences have vectors."""
        if name not in self.arrays:
            raise no_vector_of_a_token(self.header["pool"])
        return self.arrays[name]

    def vectors(self, start: int, stop: int) -> np.ndarray:
        """Return rows start:stop as float32, (stop - start, ..., D). Rows that are
        stored as float32 are not copied."""
        scales = self.arrays.get("scales")
        rows = self.read_rows(start, stop)
        return unpack(rows, None if scales is None else scales[start:stop])

    def texts(self, name: str, start: int, stop: int) -> list[str]:
        """Return some of the strings of `document_ids` or `token_text`."""
        offsets = self.array(f"{name}_offsets")[start : stop + 1]
        data = self.array(name)[offsets[0] : offsets[-1]].tobytes()
        ends = (offsets - offsets[0]).tolist()
        return [data[a:b].decode("utf-8") for a, b in pairwise(ends)]

    def tokens_of(self, document: int) -> tuple[int, int]:
        """Return a document's first token, and the one after its last."""
        first, last = self.arrays["document_offsets"][document : document + 2]
        return int(first), int(last)

    def sentences_of(self, document: int) -> tuple[int, int]:
        """Return a document's first sentence, and the one after its last."""
        offsets = self.arrays["sentence_offsets"]
        first, last = np.searchsorted(offsets, self.tokens_of(document))
        return int(first), int(last)

    def rows_of(self, document: int) -> tuple[int, int]:
        """Return a document's first row, and the one after its last."""
        pool = self.header["pool"]
        if pool == "doc":
            return document, document + 1
        return (self.tokens_of if pool == "token" else self.sentences_of)(document)

    def check_header(self, plan: str, name: str) -> None:
        """Raise an exception unless the header is that of a shard of the plan, and all
        arrays are there, as long as it says.

        Args:
            plan: Hash of the plan.
            name: Name of the shard.
        """
        header, counts = self.header, self.header["counts"]
        expect("plan", header["plan"], plan)
        expect("name", header["shard"], name)
        for entry, kind in ENTRIES.items():
            expect(f"type of '{entry}'", type(header[entry]), kind)
        for entry, value in vars(Rounding(**header["error"])).items():
            expect(f"type of '{entry}'", type(value), float)
        for column in COLUMNS:
            if column.startswith(LEFT_OUT[header["pool"]]):
                continue
            n = len(self.arrays[column])
            if column not in TEXTS:
                n = counts[column.partition("_")[0] + "s"] + column.endswith("_offsets")
            expect(f"shape of {column}", self.arrays[column].shape, (n,))
        expect("number of rows", counts["rows"], self.n_rows)
        named = header["arrays"]
        expect("list of arrays", sorted(named), sorted(["vectors", *self.arrays]))
        for array, said in named.items():
            expect(f"type of the checksum of {array}", type(said["checksum"]), str)
        if named["vectors"]["dtype"] == "int8":
            scales = list(self.arrays["scales"].shape)
            expect("shape of scales", scales, named["vectors"]["shape"][:-1])

    def check_arrays(self, path: Path) -> None:
        """Raise ValueError [EL208] unless the arrays of a file are what its header
        says."""
        for name, said in self.header["arrays"].items():
            digest, n_rows = new_checksum(), said["shape"][0]
            if name == "vectors":
                for start in range(0, n_rows, ROWS_AT_ONCE):
                    stop = min(start + ROWS_AT_ONCE, n_rows)
                    digest.update(bytes_of(self.read_rows(start, stop)))
            else:
                if self.arrays[name].dtype.name != said["dtype"]:
                    raise Errors.EL208(path=path, error=f"{name} is of another type")
                digest.update(bytes_of(self.arrays[name]))
            if digest.hexdigest() != said["checksum"]:
                raise Errors.EL208(path=path, error=f"its {name} were changed")


def expect(what: str, found: object, expected: object) -> None:
    """Raise ValueError if something of a shard is not as expected."""
    if found != expected:
        raise ValueError(f"its {what} is {found}, not {expected}")


def no_vector_of_a_token(pool: str, n_layers: int = 1) -> ElmoError:
    """Return the error [EL218] for other vectors than one a token."""
    whole = {"doc": "document"}.get(pool, pool)
    found = f"{n_layers} layers" if n_layers > 1 else "one vector"
    options = ["--pool token"] if pool != "token" else []
    options += ["--layers average, top or mix"] if n_layers > 1 else []
    values = {"found": f"{found} of each {whole}", "options": ", and ".join(options)}
    return Errors.EL218(**values)


class ShardWriter:
    """Writes a new file: rows of one type and shape, block by block, and at the end
    everything else."""

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
    """Return the first HEADER_BYTES of a file with this header."""
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


def read_shard(path: Path) -> Shard:
    """Map the file of a shard into memory. Raises ValueError [EL208] if it is damaged,
    as far as its header tells."""
    with reading(path, Errors.EL208):
        with path.open("rb") as file:
            data = file.read(HEADER_BYTES)
        if len(data) < HEADER_BYTES:
            raise ValueError("it is too short")
        header = json.loads(json.loads(data[8:])[METADATA]["spacy_elmo"])
        if pack_header(header) != data:
            raise ValueError("its header was changed")
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
