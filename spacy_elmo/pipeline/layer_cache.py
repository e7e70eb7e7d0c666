"""Layers of sentences, kept for the next epoch or the next run.

With a frozen biLM a sentence always has the same layers, so a corpus that is read many
times need be encoded once.

Shapes: L1 layers (the token layer included), T tokens of a sentence, D width.
"""

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..bilm.kernels import choose_all
from ..errors import Errors, Warnings
from .encoder import Encoder, Sentences, check_rows, sentences_of, shim_of
from .layer_batch import LayerBatch
from .shim import BiLMShim, to_array
from .spans import DocPieces

# The version of this package that last changed a bit of any vector. What a cache holds
# of other versions is not found.
VECTORS_OF = "0.1.0"


class LayerCache(ABC):
    """Where layers of sentences are kept, each float32 (L1, T, D).

    When it is full it takes no more, since what an epoch reads is read again in the
    same order, and the oldest would always be gone when its turn comes.

    Args:
        where: It is, for messages.
        max_bytes: Size of it at most.
    """

    def __init__(self, where: str, max_bytes: int) -> None:
        self.where, self.max_bytes = where, max_bytes
        self.hits = self.misses = 0  # sentences that were found, and that were not
        self._is_full = False

    @abstractmethod
    def use(self, context: bytes) -> None:
        """Prepare for keys of a context."""

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Any]:
        """Return the layers that are there."""
        wanted = list(dict.fromkeys(keys))
        found = self._find(wanted)
        self.hits += len(found)
        self.misses += len(wanted) - len(found)
        return found

    def write(self, layers: Mapping[bytes, Any]) -> None:
        """Keep layers; warn [ELW07], once, when there is no more room."""
        if not self._is_full:
            self._keep(layers)

    @abstractmethod
    def _find(self, keys: Sequence[bytes]) -> dict[bytes, Any]: ...

    @abstractmethod
    def _keep(self, layers: Mapping[bytes, Any]) -> None: ...

    def _warn_full(self, error: object) -> None:
        self._is_full = True
        mb = self.max_bytes >> 20
        message = Warnings.ELW07.format(where=self.where, mb=mb, error=error)
        warnings.warn(message, stacklevel=4)


class MemoryCache(LayerCache):
    """A layer cache in memory, on the device that the layers are on."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__("in memory", max_bytes)
        self._context = b""
        self._clear()

    def _clear(self) -> None:
        self._layers: dict[bytes, Any] = {}
        self._n_bytes = 0
        self._is_full = False

    def use(self, context: bytes) -> None:
        """Forget what belongs to another context: other weights, or settings."""
        if context != self._context:
            self._context = context
            self._clear()

    def _find(self, keys: Sequence[bytes]) -> dict[bytes, Any]:
        return {key: self._layers[key] for key in keys if key in self._layers}

    def _keep(self, layers: Mapping[bytes, Any]) -> None:
        n_bytes = sum(layers_LTD.nbytes for layers_LTD in layers.values())
        fits = self._n_bytes + n_bytes <= self.max_bytes
        for key, layers_LTD in layers.items():
            if key in self._layers:
                continue
            if self._n_bytes + layers_LTD.nbytes > self.max_bytes:
                self._warn_full("full")
                return
            # They are parts of one array, which would stay in memory as a whole.
            self._layers[key] = layers_LTD if fits else layers_LTD.copy()
            self._n_bytes += layers_LTD.nbytes


def key_of(context: str, tokens: Sequence[str]) -> bytes:
    """Return the key of a sentence, whose layers depend on a context and its tokens."""
    digest = hashlib.sha256(context.encode())
    for token in tokens:
        data = token.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()


def context_of(shim: BiLMShim) -> str:
    """Return what layers depend on beside the tokens: the weights, and how they are
    computed with, down to the rounding."""
    with torch.no_grad():
        kernels = choose_all(shim.bilm.fast.dispatch_key(), shim.bilm_config, 1)
    parts = (
        VECTORS_OF,
        shim.fingerprint(),
        "",  # a part of the keys of older caches
        shim.bilm.precision,
        _device_name(shim.bilm.device),
        torch.__version__,
        torch.backends.cpu.get_cpu_capability(),
        *kernels.values(),
    )
    return " ".join(map(str, parts))


def _device_name(device: torch.device) -> str:
    """Return the type of a device, and which GPU it is: they round differently."""
    if device.type == "cuda":
        return f"cuda {torch.cuda.get_device_name(device)}"
    return device.type


def read_through(
    cache: LayerCache, encoder: Encoder, docs: Sequence[DocPieces]
) -> LayerBatch:
    """Return the layers of Docs, those of known sentences from a cache, and keep the
    others there, but nothing that was computed while another thread changed weights."""
    shim = shim_of(encoder)
    weights = list(shim.bilm.parameters())  # kept alive, see `BiLMShim.state`
    before, context = shim.state(), context_of(shim)
    cache.use(key_of(context, []))
    sentences, lengths = sentences_of(docs)
    tokens, rows, n_rows = sentences
    # By the words as they are read: both Unicode forms of a word have one vector.
    keys = [key_of(context, shim.bilm.as_read(sentence)) for sentence in tokens]
    known = cache.read(keys)
    new = [s for s, key in enumerate(keys) if key not in known]
    layers_LND: Any = encoder.layers[0].predict(
        Sentences([tokens[s] for s in new], [rows[s] for s in new], n_rows)
    )
    device = shim.bilm.device
    computed: dict[bytes, Any] = {}
    if new:
        kept_once = {keys[s]: rows[s] for s in new}
        from_N = to_array(np.concatenate(list(kept_once.values())), device)
        own = LayerBatch(layers_LND[:, from_N], list(map(len, kept_once.values())))
        computed = dict(zip(kept_once, own))
    old = [s for s, key in enumerate(keys) if key in known]
    if old:
        kept = [known[keys[s]] for s in old]
        if any(kept_LTD.shape[1] != len(rows[s]) for kept_LTD, s in zip(kept, old)):
            problem = "a sentence has layers of another length"
            raise ValueError(Errors.EL086.format(where=cache.where, error=problem))
        if isinstance(kept[0], np.ndarray):  # of a file
            kept_LND = to_array(np.concatenate(kept, axis=1), device)
        else:
            kept_LND = encoder.ops.xp.concatenate(kept, axis=1)
        to_N = to_array(np.concatenate([rows[s] for s in old]), device)
        layers_LND[:, to_N] = kept_LND
    if weights and shim.state() == before:
        cache.write(computed)
    # Of a GPU, those of the cache came there before they were looked at.
    return LayerBatch(layers_LND, lengths, check_rows(layers_LND, sentences))
