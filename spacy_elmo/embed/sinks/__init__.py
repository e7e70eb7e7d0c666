"""Formats of shards, by registered name."""

from .hdf5 import Hdf5
from .parquet import Parquet
from .safetensors import Safetensors
from .sink import Shard, Sink, find_sink

__all__ = ["Hdf5", "Parquet", "Safetensors", "Shard", "Sink", "find_sink"]
