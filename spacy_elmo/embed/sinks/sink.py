"""The protocol of a sink, and a shard as every sink gives it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...registry import registry
from ..keep import choose, unpack


@dataclass(frozen=True)
class Shard:
    """A shard as it is read.

    Attributes:
        header: As in shards.py.
        arrays: Those of columns.py by name, and the scales of int8.
        read_rows: Returns rows start:stop in the type in which they are written.
    """

    header: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    read_rows: Callable[[int, int], np.ndarray]

    def vectors(self, start: int, stop: int) -> np.ndarray:
        """Return rows as float32; without a copy if they are written so."""
        scales = self.arrays.get("scales")
        rows = self.read_rows(start, stop)
        return unpack(rows, None if scales is None else scales[start:stop])


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
    """Return the sink of a registered name.

    Raises:
        ValueError: [EL207] if there is none.
    """
    sinks = registry.sinks.get_all()
    choose("format", name, sorted(sinks))
    sink: Sink = sinks[name]()
    return sink
