"""Sentences -> batches -> biLM -> layers, as a Thinc model.

Shapes: L1 layers (the token layer included), N rows of the result, D width.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from thinc.api import Model
from thinc.types import Floats3d

from ..bilm.batch import PackedBatch, batch_by_tokens, compute_what_fits, pack
from ..errors import Errors
from .shim import BiLMShim
from .torch_shim import run


class Sentences(NamedTuple):
    """What the biLM reads, and where its layers go.

    Args:
        tokens: Sentences, each a list of tokens.
        rows: For each sentence, the rows of the result that its tokens' vectors fill.
        n_rows: Rows of the result (N). Those that no sentence fills are zeros.
    """

    tokens: list[list[str]]
    rows: list[np.ndarray]
    n_rows: int


SentenceEncoder = Model[Sentences, Floats3d]


def build_sentence_encoder(shim: BiLMShim) -> SentenceEncoder:
    """Return a model from sentences to layers (L1, N, D)."""
    return Model("bilm", _forward, shims=[shim])


def _forward(
    model: SentenceEncoder, sentences: Sentences, is_train: bool
) -> tuple[Floats3d, Callable[[Floats3d], list[Any]]]:
    shim: Any = model.shims[0]
    if not shim.has_weights:
        raise ValueError(Errors.EL050.format(name="spacy-elmo.BiLM.v1"))
    xp: Any = model.ops.xp
    tokens, rows, n_rows = sentences
    n_layers, width = shim.bilm_config.n_layers + 1, shim.bilm_config.width
    layers_LND: Any = model.ops.alloc3f(n_layers, n_rows, width)
    groups: list[tuple[Any, Any, tuple[int, int, int], Callable[[Any], Any]]] = []

    def compute(group: Sequence[int]) -> tuple[PackedBatch, Any, Any]:
        batch = pack([tokens[s] for s in group])
        return batch, *run(shim, (batch,), is_train, pick=_layers)

    for whole in batch_by_tokens(tokens, shim.batch_tokens):
        for group, (batch, Y_LND, backprop_group) in compute_what_fits(
            tokens, whole, compute
        ):
            to_N = xp.asarray(np.concatenate([rows[s] for s in group]))
            from_N = xp.asarray(np.concatenate(batch.positions))
            layers_LND[:, to_N] = Y_LND[:, from_N]
            if is_train:
                groups.append((to_N, from_N, Y_LND.shape, backprop_group))

    def backprop(d_layers_LND: Any) -> list[Any]:
        for to_N, from_N, shape, backprop_group in groups:
            dY_LND: Any = model.ops.alloc3f(*shape)
            dY_LND[:, from_N] = d_layers_LND[:, to_N]
            backprop_group(dY_LND)
        return []

    return layers_LND, backprop


def _layers(outputs: tuple[Any, Any]) -> Any:
    return outputs[0]
