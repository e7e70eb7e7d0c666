"""The layers of Docs, those of known sentences from a cache."""

from typing import TYPE_CHECKING, Any

import torch
from thinc.types import Floats3d

from .. import __version__
from ..layers.encoder import DocPieces, Encoder, shim_of
from .layer_cache import LayerCache

if TYPE_CHECKING:
    from ..layers.shim import BiLMShim


def predict(
    encoder: Encoder, inputs: list[DocPieces], cache: LayerCache
) -> list[Floats3d]:
    """As `encoder.predict`. Raises as `LayerCache.read`."""
    context = context_of(shim_of(encoder))
    cache.check_context(context)
    ops: Any = encoder.ops
    texts = [[token.text for token in doc] for doc, _ in inputs]
    keys = [
        [cache.key(context, [texts[d][i] for i in piece.tolist()]) for piece in pieces]
        for d, (_, pieces) in enumerate(inputs)
    ]
    known = cache.read([key for row in keys for key in row])
    missing = [
        DocPieces(doc, [p for p, key in zip(pieces, row) if key not in known])
        for (doc, pieces), row in zip(inputs, keys)
    ]
    # Rows of zeros where a piece is known.
    layers: list[Any] = encoder.predict(missing)
    new = {}
    for layers_LTD, (_, pieces), row in zip(layers, inputs, keys):
        for piece, key in zip(pieces, row):
            if key in known:
                layers_LTD[:, ops.xp.asarray(piece)] = ops.asarray(known[key])
            else:
                new[key] = ops.to_numpy(layers_LTD[:, ops.xp.asarray(piece)])
    cache.write(new)
    return layers


def context_of(shim: "BiLMShim") -> str:
    """What layers depend on beside the words: the weights, and how they are computed
    with, down to the rounding."""
    parts = (
        __version__,
        shim.fingerprint(),
        shim.bilm.token_cache.hash_of_fixed,  # are of full precision
        shim.precision,
        "exact" if shim.exact else "",
        shim.bilm.device.type,
        torch.__version__,
        torch.backends.cpu.get_cpu_capability(),
        torch.backends.mkldnn.enabled,
    )
    return " ".join(map(str, parts))
