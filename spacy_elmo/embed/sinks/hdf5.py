"""Sentences in HDF5, as AllenNLP writes them."""

import json
from collections.abc import Callable, Iterable
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ...files import create_hdf5
from ...registry import registry
from ..model import check_setting
from ..shard import Shard


@registry.sinks("hdf5")
class Hdf5:
    """HDF5 as AllenNLP's command `elmo` writes it, for code that reads that: rows of
    tokens that are not int8.

    Each sentence is a dataset named by its number: (T, D), or (layers, T, D) where
    several layers are kept. The dataset `sentence_to_index` holds a JSON object from
    sentences to these numbers. The header of a shard is an attribute of its file.
    """

    suffix = ".hdf5"

    def check(self, dtype: str, pool: str) -> None:
        """Accept tokens in a floating-point type. Raises ValueError [EL207]."""
        check_setting("dtype", dtype, ["float32", "float16"])
        check_setting("pool", pool, ["token"])

    def write(self, shard: Shard, path: Path) -> None:
        """Write a shard to a new file. Raises OSError."""
        with create_hdf5(path) as file:
            _write_sentences(file, [(shard, shard.read_rows)])
            file.attrs["header"] = json.dumps(shard.header)

    def join(self, shards: Iterable[Shard], path: Path) -> None:
        """Write the sentences of several shards to one new file, as float32. Raises
        OSError."""
        with create_hdf5(path) as file:
            _write_sentences(file, ((shard, shard.vectors) for shard in shards))


def _write_sentences(
    file: Any, shards: Iterable[tuple[Shard, Callable[[int, int], np.ndarray]]]
) -> None:
    """Write the sentences of shards, each with a function that reads its rows."""
    index, keys = {}, map(str, count())
    for shard, read in shards:
        for start, stop in pairwise(shard.arrays["sentence_offsets"].tolist()):
            key, rows = next(keys), np.asarray(read(start, stop))
            index[" ".join(shard.texts("token_text", start, stop))] = key
            rows = rows.swapaxes(0, 1) if rows.ndim > 2 else rows
            file.create_dataset(key, data=rows)
    text = h5py.special_dtype(vlen=str)
    file.create_dataset("sentence_to_index", (1,), dtype=text)[0] = json.dumps(index)
