"""Shards as they are made."""

from pathlib import Path

import numpy as np

from ...registry import registry
from ..shard import ROWS_AT_ONCE, SUFFIX, Shard, ShardWriter


@registry.sinks("safetensors")
class Safetensors:
    """Vectors and everything else in one file: for shards that version 0.2 stored in
    another format."""

    suffix = SUFFIX

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
