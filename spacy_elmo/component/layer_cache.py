"""Layers of sentences, kept for the next epoch or the next run.

With a frozen biLM a sentence always has the same layers, so a corpus that is read many
times need be encoded once.

Shapes: L1 layers (the token layer included), T tokens of a sentence, N tokens of a
batch of Docs, D width.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from ..layers.encoder import Encoder, Sentences, sentences_of, shim_of
from ..layers.layer_batch import LayerBatch
from ..layers.shim import BiLMShim
from ..layers.spans import DocPieces
from .file_cache import FileCache
from .memory_cache import MemoryCache

# The version of this package that last changed a bit of any vector. What a cache holds
# of other versions is not found.
VECTORS_OF = "0.1.0"


class LayerCache(Protocol):
    """Where layers of sentences are kept.

    Args:
        hits: Number of sentences that were found so far.
        misses: Number of those that were not.
        max_bytes: Size at most. When it is full it takes no more, since what an epoch
            reads is read again in the same order, and the oldest would always be gone
            when its turn comes.
    """

    hits: int
    misses: int
    max_bytes: int

    def use(self, context: bytes) -> None:
        """Prepare for keys of a context."""

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Any]:
        """Return the layers that are there, each float32 (L1, T, D)."""

    def write(self, layers: Mapping[bytes, Any]) -> None:
        """Keep layers, as long as there is room."""


def open_cache(where: str | Path, max_bytes: int) -> LayerCache:
    """Return a cache in a file, or in "memory"."""
    if where == "memory":
        return MemoryCache(max_bytes)
    return FileCache(Path(where), max_bytes)


def key_of(context: str, tokens: Sequence[str]) -> bytes:
    """Return the key of a sentence.

    Args:
        context: Whatever else than the tokens its layers depend on.
        tokens: Of the sentence.
    """
    digest = hashlib.sha256(context.encode())
    for token in tokens:
        data = token.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()


def context_of(shim: BiLMShim) -> str:
    """Return what layers depend on beside the tokens: the weights, and how they are
    computed with, down to the rounding."""
    parts = (
        VECTORS_OF,
        shim.fingerprint(),
        "",  # for the caches of version 0.1, which say something else here
        shim.precision,
        "exact" if shim.exact else "",
        shim.bilm.device.type,
        torch.__version__,
        torch.backends.cpu.get_cpu_capability(),
        torch.backends.mkldnn.enabled,
    )
    return " ".join(map(str, parts))


def read_through(
    cache: LayerCache, encoder: Encoder, docs: Sequence[DocPieces]
) -> LayerBatch:
    """Return the layers of Docs, those of known sentences from a cache, and keep the
    others there."""
    xp: Any = encoder.ops.xp
    context = context_of(shim_of(encoder))
    cache.use(key_of(context, []))
    (tokens, rows, n_rows), lengths = sentences_of(docs)
    keys = [key_of(context, sentence) for sentence in tokens]
    known = cache.read(keys)
    new = [s for s, key in enumerate(keys) if key not in known]
    layers_LND: Any = encoder.layers[0].predict(
        Sentences([tokens[s] for s in new], [rows[s] for s in new], n_rows)
    )
    computed = {keys[s]: layers_LND[:, xp.asarray(rows[s])] for s in new}
    old = [s for s, key in enumerate(keys) if key in known]
    if old:
        to_N = xp.asarray(np.concatenate([rows[s] for s in old]))
        kept = [xp.asarray(known[keys[s]]) for s in old]
        layers_LND[:, to_N] = xp.concatenate(kept, axis=1)
    # Nothing that was computed while another thread changed the weights.
    if context_of(shim_of(encoder)) == context:
        cache.write(computed)
    return LayerBatch(layers_LND, lengths)
