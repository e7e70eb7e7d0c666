"""HDF5 as AllenNLP's command `elmo` writes it, for code that reads that.

Each sentence is a dataset named by its number: (T, D), or (layers, T, D) where several
layers are kept. The dataset `sentence_to_index` holds a JSON object from sentences to
these numbers. The header of the shard is an attribute of the file.
"""

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ...files import create_hdf5
from ...registry import registry
from ..keep import choose
from ..shard import Shard


@registry.sinks("hdf5")
class Hdf5:
    """One dataset for each sentence; for rows of tokens that are not int8."""

    suffix = ".hdf5"

    def check(self, dtype: str, pool: str) -> None:
        """Accept tokens in a floating-point type. Raises ValueError [EL207]."""
        choose("dtype", dtype, ["float32", "float16"])
        choose("pool", pool, ["token"])

    def write(self, shard: Shard, path: Path) -> None:
        """Write a shard to a new file. Raises OSError."""
        with create_hdf5(path) as file:
            _write_index(file, _write_sentences(file, shard, shard.read_rows, 0))
            file.attrs["header"] = json.dumps(shard.header)

    def join(self, shards: Iterable[Shard], path: Path) -> None:
        """Write the sentences of several shards to one new file, as float32. Raises
        OSError."""
        with create_hdf5(path) as file:
            index: dict[str, str] = {}
            n_sentences = 0
            for shard in shards:
                index |= _write_sentences(file, shard, shard.vectors, n_sentences)
                n_sentences += len(shard.arrays["sentence_offsets"]) - 1
            _write_index(file, index)


def _by_token(array: np.ndarray) -> np.ndarray:
    """Swap tokens and layers, if there are layers."""
    return array.swapaxes(0, 1) if array.ndim > 2 else array


def _write_sentences(
    file: Any, shard: Shard, read: Any, first_number: int
) -> dict[str, str]:
    """Write datasets, numbered from a number on. Return the index of sentences."""
    index, offsets = {}, shard.arrays["sentence_offsets"].tolist()
    for number, (start, stop) in enumerate(pairwise(offsets)):
        key = str(first_number + number)
        index[" ".join(shard.texts("token_text", start, stop))] = key
        file.create_dataset(key, data=_by_token(np.asarray(read(start, stop))))
    return index


def _write_index(file: Any, index: dict[str, str]) -> None:
    text = h5py.special_dtype(vlen=str)
    dataset = file.create_dataset("sentence_to_index", (1,), dtype=text)
    dataset[0] = json.dumps(index)
