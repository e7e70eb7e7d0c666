"""A sink: the vectors of a shard as one NumPy archive."""

import json
from pathlib import Path

import numpy as np

from spacy_elmo.embed import Shard
from spacy_elmo.registry import registry


@registry.sinks("elmo-extension-npz")
class NpzSink:
    """A file that `numpy.load` reads."""

    suffix = ".npz"

    def check(self, dtype: str, pool: str) -> None:
        """Accept everything."""

    def write(self, shard: Shard, path: Path) -> None:
        """Write a shard to a new file."""
        rows = shard.read_rows(0, shard.header["counts"]["rows"])
        text = np.frombuffer(json.dumps(shard.header).encode(), dtype=np.uint8)
        with path.open("xb") as file:
            np.savez(file, header=text, vectors=rows, **shard.arrays)
