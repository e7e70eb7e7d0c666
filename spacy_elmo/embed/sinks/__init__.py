"""Formats of shards, by registered name."""

from pathlib import Path
from typing import Protocol

from ...registry import registry
from ..keep import choose
from ..shard import Shard
from .hdf5 import Hdf5
from .parquet import Parquet
from .safetensors import Safetensors

__all__ = ["Hdf5", "Parquet", "Safetensors", "Shard", "Sink", "find_sink"]


class Sink(Protocol):
    """A format of shards, registered with `@registry.sinks`.

    Attributes:
        suffix: Ending of its files.
    """

    suffix: str

    def check(self, dtype: str, pool: str) -> None:
        """Check that it can hold such rows.

        Raises:
            ValueError: [EL207] if it can't.
            ImportError: [EL211] if a package is missing.
        """

    def write(self, shard: Shard, path: Path) -> None:
        """Write a shard to a new file. What is written depends on the shard alone."""

    def read(self, path: Path) -> Shard:
        """Return the shard of a file with everything that was written.

        Raises:
            ValueError: [EL208] if it is damaged.
        """


def find_sink(name: str) -> Sink:
    """Return the sink of a registered name. Raises ValueError [EL207]."""
    sinks = registry.sinks.get_all()
    choose("format", name, sorted(sinks))
    sink: Sink = sinks[name]()
    return sink
