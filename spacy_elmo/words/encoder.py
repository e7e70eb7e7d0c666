"""A static vector for any string, by convolutions over its word pieces, in integers.

All weights and all activations are integers of eight bits, so that a product is a sum
of integers below 2**24. float32 holds those exactly. So a word has the same vector, bit
for bit, in any batch and on any processor, in whatever order a library adds.

Shapes: N words, P pieces of all words, R pieces that do not begin a word, V known
pieces, E embedding, H hidden, D vector.
"""

import hashlib
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from safetensors.numpy import load as deserialize
from safetensors.numpy import save as serialize

from ..errors import Errors
from ..files import named_path, parsing, reading, write_file
from .pieces import FIRST, LAST, UNKNOWN, pieces_of

FILE = "words.safetensors"
FORMAT_VERSION = 1
FORMAT = "word vectors"  # for messages
MAX_BYTES = 256 << 20  # most bytes of a file
LARGEST = 127  # largest weight and activation
MAX_COLUMNS = 1 << 10  # most inputs of a product: 1024 * 127 * 127 is below 2**24
BATCH_SIZE = 2_000  # words of a batch, which bounds memory
CACHE_WORDS = 50_000  # most words in the cache: 32 MB
MAX_KEPT = 100  # most characters of a word in the cache

Arrays = dict[str, np.ndarray]


class WordEncoder:
    """Computes a static vector for any string: convolutions of width three over the
    embeddings of its pieces, a mean, and one linear layer.

    Attributes:
        width: Columns of a vector.
        sha256: Hash of the weights.
    """

    def __init__(self, arrays: Arrays, path: str | Path = "the arrays") -> None:
        """Check weights and use them.

        Args:
            arrays: The arrays of `FILE` without the checksum: "pieces" (UTF-8, one a
                line), "table" (V, E), "layer.N.weight" (3 E or 3 H, H), "layer.N.scale"
                and "layer.N.bias" (H,), and the same three of "output", (H, D) and
                (D,).
            path: Their origin, for messages.

        Raises:
            ValueError: [EL002] An array has another shape or dtype, is not finite, or
                is too wide to be exact.
        """
        self._arrays = _checked(arrays, path)
        self.sha256 = _checksum(arrays)
        pieces = bytes(arrays["pieces"]).decode("utf-8").split("\n")
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self._table_VE = arrays["table"]
        self._layers = [_Convolution(arrays, name) for name in _layer_names(arrays)]
        before_and_after = [self._numbers[FIRST], self._numbers[LAST]]
        self._boundaries = self._table_VE[before_and_after].astype(np.float32)
        # float64, since sums over the pieces of a word can exceed 2**24.
        self._output_HD = arrays["output.weight"].astype(np.float64)
        self.width = self._output_HD.shape[1]
        self._kept: dict[str, np.ndarray] = {}

    def __repr__(self) -> str:
        V, E = self._table_VE.shape
        return (
            f"WordEncoder(pieces={V}, embedding={E}, layers={len(self._layers)}, "
            f"width={self.width})"
        )

    @property
    def n_kept(self) -> int:
        """Number of words in the cache."""
        return len(self._kept)

    def forget(self) -> None:
        """Empty the cache."""
        self._kept = {}

    def __deepcopy__(self, memo: Any) -> "WordEncoder":
        return self  # it never changes

    def __reduce__(self) -> Any:
        return WordEncoder.from_bytes, (self.to_bytes(),)

    def vectors(self, words: Sequence[str]) -> np.ndarray:
        """Return the vectors of words, (N, D) in float32. A word of white space has
        zeros. Vectors are cached."""
        # Another thread may add to this dictionary, or replace it by an empty one.
        kept = self._kept
        missing = [word for word in dict.fromkeys(words) if word not in kept]
        found: dict[str, np.ndarray] = {}
        for first in range(0, len(missing), BATCH_SIZE):
            some = missing[first : first + BATCH_SIZE]
            found.update(zip(some, self._encode(some), strict=True))
        rows = [found[word] if word in found else kept[word] for word in words]
        if len(kept) + len(found) > CACHE_WORDS:
            kept = self._kept = {}
        short = ((w, row) for w, row in found.items() if len(w) <= MAX_KEPT)
        kept.update(islice(short, CACHE_WORDS))
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.width)

    def _encode(self, words: Sequence[str]) -> np.ndarray:
        """Compute the vectors of words, (N, D)."""
        vectors_ND = np.zeros((len(words), self.width), dtype=np.float32)
        pieces = [pieces_of(word, self._numbers) for word in words]
        spelled = np.array([bool(some) for some in pieces])
        if not spelled.any():
            return vectors_ND
        n_N = np.array([len(some) for some in pieces if some])
        first_N = np.cumsum(n_N) - n_N
        # The pieces after the first of their word, and the pieces before them.
        later_R = np.delete(np.arange(n_N.sum()), first_N)
        earlier_R = later_R - 1
        ids_P = np.fromiter(chain.from_iterable(pieces), np.int64, count=n_N.sum())
        x_PE = self._table_VE[ids_P].astype(np.float32)
        for number, layer in enumerate(self._layers):
            sums_PH = x_PE @ layer.middle_EH
            sums_PH[later_R] += x_PE[earlier_R] @ layer.left_EH
            sums_PH[earlier_R] += x_PE[later_R] @ layer.right_EH
            if number == 0:  # only the first layer sees the embedded boundaries
                before_E, after_E = self._boundaries
                sums_PH[first_N] += before_E @ layer.left_EH
                sums_PH[first_N + n_N - 1] += after_E @ layer.right_EH
            y_PH = np.rint(np.maximum(sums_PH * layer.scale_H + layer.bias_H, 0))
            if number > 0:  # a residual connection
                y_PH += x_PE
            x_PE = np.minimum(y_PH, LARGEST)
        sums_NH = np.add.reduceat(x_PE.astype(np.float64), first_N)
        means_ND = (sums_NH @ self._output_HD) / n_N[:, None]
        scale_D, bias_D = self._arrays["output.scale"], self._arrays["output.bias"]
        vectors_ND[spelled] = means_ND.astype(np.float32) * scale_D + bias_D
        return vectors_ND

    def to_bytes(self) -> bytes:
        """Return the weights in the format of safetensors, with a checksum."""
        return packed(self._arrays)

    @classmethod
    def from_bytes(
        cls, data: bytes, path: str | Path = "the saved pipeline"
    ) -> "WordEncoder":
        """Return the encoder with these weights, by `to_bytes`. If an encoder with the
        same weights is in memory, return it. Raises ValueError [EL002] if the weights
        are damaged."""
        with parsing(Errors.EL002, path, format=FORMAT):
            arrays = deserialize(data)
        digest = arrays.pop("sha256", np.zeros(0, np.uint8)).tobytes().hex()
        if digest != _checksum(arrays):
            problem = "it was changed after it was written, its checksum says"
            raise Errors.EL002(path=path, format=FORMAT, error=problem)
        known = _in_memory.get(digest)
        if known is None:
            known = _in_memory[digest] = cls(arrays, path)
        return known

    @classmethod
    def load(cls, path: str | Path) -> "WordEncoder":
        """Read an encoder.

        Args:
            path: Its file, or the folder of a biLM that has the file.

        Raises:
            FileNotFoundError: [EL146] There is no such file.
            ValueError: [EL002] It is damaged, or has another format.
        """
        path = named_path(path)
        file = path / FILE if path.is_dir() else path
        if not file.exists():
            raise Errors.EL146(path=path, file=FILE, names="en_elmo_sm")
        with reading(file, Errors.EL002, max_bytes=MAX_BYTES, format=FORMAT):
            data = file.read_bytes()
        return cls.from_bytes(data, file)

    def save(self, path: str | Path) -> None:
        """Write the encoder to a file, or into a folder as `FILE`. Raises OSError
        [EL013] if that fails."""
        path, data = named_path(path), self.to_bytes()
        file = path / FILE if path.is_dir() else path
        write_file(file, lambda target: target.write_bytes(data))


def packed(arrays: Arrays) -> bytes:
    """Return arrays in the format of safetensors, with a checksum."""
    digest = np.frombuffer(bytes.fromhex(_checksum(arrays)), dtype=np.uint8)
    return serialize({**arrays, "sha256": digest})


_in_memory: "WeakValueDictionary[str, WordEncoder]" = WeakValueDictionary()


class _Convolution:
    """The weights of one layer, for the piece before, the piece itself and the piece
    after. The sum of the three products is scaled, and a bias is added."""

    def __init__(self, arrays: Arrays, name: str) -> None:
        weight = arrays[f"{name}.weight"].astype(np.float32)
        self.left_EH, self.middle_EH, self.right_EH = np.split(weight, 3)
        self.scale_H = arrays[f"{name}.scale"]
        self.bias_H = arrays[f"{name}.bias"]


def _layer_names(arrays: Arrays) -> list[str]:
    n_layers = sum(name.startswith("layer.") for name in arrays) // 3
    return [f"layer.{number}" for number in range(n_layers)]


def _checksum(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _checked(arrays: Arrays, path: str | Path) -> Arrays:
    """Check names, shapes and values of arrays, and return the arrays. Raises
    ValueError [EL002] if one of them is wrong."""

    def check(is_right: object, problem: str) -> None:
        if not is_right:
            raise Errors.EL002(path=path, format=FORMAT, error=problem)

    def check_array(name: str, dtype: type, *shape: int) -> None:
        array = arrays[name]
        found = f"{name} is {array.dtype} of shape {array.shape}"
        check(array.dtype == dtype and array.shape == shape, found)
        if dtype is np.float32:
            check(np.isfinite(array).all(), f"{name} holds NaN or infinite values")
        if dtype is np.int8:
            check((array >= -LARGEST).all(), f"{name} holds -128")

    layers = [*_layer_names(arrays), "output"]
    parts = [f"{name}.{part}" for name in layers for part in _PARTS]
    is_complete = sorted(arrays) == sorted(["format", "pieces", "table", *parts])
    check(is_complete, "arrays are missing")
    check(len(layers) > 1, "it has no layers")
    check_array("format", np.int32)
    version = int(arrays["format"])
    check(version == FORMAT_VERSION, f"its format is {version}")
    check_array("pieces", np.uint8, arrays["pieces"].size)
    try:
        pieces = bytes(arrays["pieces"]).decode("utf-8").split("\n")
    except UnicodeDecodeError:
        check(False, "its pieces are not UTF-8")
    check(len(set(pieces)) == len(pieces), "it has a piece twice")
    has_special = {UNKNOWN, FIRST, LAST} <= set(pieces)
    check(has_special, f"{UNKNOWN}, {FIRST} or {LAST} is missing")
    width = _columns(arrays["table"])
    check_array("table", np.int8, len(pieces), width)
    for name in layers:
        rows = width if name == "output" else 3 * width
        check(0 < rows <= MAX_COLUMNS, f"{name} has {rows} rows")
        columns = _columns(arrays[f"{name}.weight"])
        # The residual connection adds the input to the output: both are equally wide.
        is_free = name in ("layer.0", "output")
        check(columns == width or is_free, f"{name} has {columns} columns")
        check_array(f"{name}.weight", np.int8, rows, columns)
        check_array(f"{name}.scale", np.float32, columns)
        check_array(f"{name}.bias", np.float32, columns)
        width = columns
    return arrays


def _columns(matrix: np.ndarray) -> int:
    return matrix.shape[-1] if matrix.ndim else 0


_PARTS = ("weight", "scale", "bias")
