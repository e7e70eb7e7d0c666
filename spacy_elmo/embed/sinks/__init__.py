"""What shards are written as: sinks, by registered name."""

from .safetensors import Safetensors
from .sink import Shard, Sink, find_sink

__all__ = ["Safetensors", "Shard", "Sink", "find_sink"]
