"""A layer cache in memory."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import Warnings


class MemoryCache:
    """A `LayerCache` in memory, on the device that the layers are on.

    Args:
        max_bytes: Size of the layers at most.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.hits = self.misses = 0
        self._layers: dict[bytes, Any] = {}
        self._n_bytes = 0
        self._is_full = False
        self._context = b""

    def use(self, context: bytes) -> None:
        """Forget what belongs to another context: other weights, or settings."""
        if context != self._context:
            self._context = context
            self._layers.clear()
            self._n_bytes, self._is_full = 0, False

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Any]:
        """Return the layers that are there, each float32 (L1, T, D)."""
        wanted = dict.fromkeys(keys)
        kept = ((key, self._layers.get(key)) for key in wanted)
        found = {key: layers_LTD for key, layers_LTD in kept if layers_LTD is not None}
        self.hits += len(found)
        self.misses += len(wanted) - len(found)
        return found

    def write(self, layers: Mapping[bytes, Any]) -> None:
        """Keep layers; warn [ELW07], once, when there is no more room."""
        if self._is_full:
            return
        for key, layers_LTD in layers.items():
            if key in self._layers:
                continue
            if self._n_bytes + layers_LTD.nbytes > self.max_bytes:
                self._is_full = True
                mb = self.max_bytes >> 20
                message = Warnings.ELW07.format(where="in memory", mb=mb, error="full")
                warnings.warn(message, stacklevel=2)
                return
            self._layers[key] = layers_LTD
            self._n_bytes += layers_LTD.nbytes
