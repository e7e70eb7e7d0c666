"""Docs -> the layers of each of their tokens: `spacy-elmo.BiLM.v1`.

    Docs -> pieces (spans.py) -> Sentences -> batches (-> shim.py) -> LayerBatch

Row i of a Doc's layers is its token i. White space, which the biLM doesn't read, has
rows of zeros.

Shapes: L1 layers (the token layer included), N tokens of all Docs, D width.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np
from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Model
from thinc.types import Floats3d

from ..bilm.batch import PackedBatch, batch_by_tokens, compute_what_fits, pack
from ..bilm.config import BiLMConfig
from ..bilm.kernels.processor import Precision
from ..bilm.token_cache import CACHE_WORDS
from ..errors import Errors
from .checksums import CheckedModel
from .layer_batch import LayerBatch
from .settings import takes_fields_of
from .shim import BiLMShim, run
from .spans import DocPieces, SpanGetter, configure_windows

Encoder = Model[Sequence[Doc | DocPieces], LayerBatch]


class Sentences(NamedTuple):
    """What the biLM reads, and which rows of the result its vectors fill; rows that no
    sentence fills are zeros."""

    tokens: list[list[str]]
    rows: list[np.ndarray]
    n_rows: int


@registry.architectures("spacy-elmo.BiLM.v1")
@takes_fields_of(BiLMConfig)
def build_bilm(
    *,
    batch_tokens: int = 4096,
    cache_words: int = CACHE_WORDS,
    precision: str = "float32",
    get_spans: SpanGetter | None = None,
    **sizes: Any,
) -> Encoder:
    """Return a biLM as a Thinc model from Docs to a `LayerBatch`.

    Args:
        batch_tokens: Tokens computed at once at most, which bounds memory.
        cache_words: Words whose token vectors are kept from batch to batch at most.
        precision: Of prediction: "float32", or "tf32", "half" or "int8" where the
            processor has instructions for them. Training is in float32.
        get_spans: Cuts a Doc into what the biLM reads at once; `spacy-elmo.Windows.v1`
            by default.
        sizes: As in `BiLMConfig`.

    Raises:
        ValueError: [EL020] if the sizes don't fit together, [EL026] for batch_tokens,
            [EL073] for the precision.
    """
    config = BiLMConfig.from_dict(sizes)
    shim = BiLMShim(config, cache_words, cast(Precision, precision), batch_tokens)
    return CheckedModel(
        "elmo-encoder",
        _forward,
        layers=[Model("bilm", _forward_sentences, shims=[shim])],
        dims={"nO": config.width},
        attrs={"get_spans": get_spans or configure_windows()},
    )


def set_sizes(encoder: Encoder, sizes: BiLMConfig) -> None:
    """Give an encoder without weights other sizes."""
    shim_of(encoder).set_sizes(sizes)
    encoder.set_dim("nO", sizes.width, force=True)


def shim_of(encoder: Encoder) -> BiLMShim:
    """Return what holds the biLM of an encoder."""
    return encoder.layers[0].shims[0]  # type: ignore[return-value]


def cut(encoder: Encoder, docs: Sequence[Doc | DocPieces]) -> list[DocPieces]:
    """Return Docs with the pieces that the encoder's get_spans cuts them into, unless
    they come with pieces."""
    get_spans: SpanGetter = encoder.attrs["get_spans"]
    return [
        doc if isinstance(doc, DocPieces) else DocPieces(doc, get_spans(doc))
        for doc in docs
    ]


def sentences_of(docs: Sequence[DocPieces]) -> tuple[Sentences, list[int]]:
    """Return what the biLM reads of Docs, and the number of tokens of each."""
    lengths = [len(doc) for doc, _ in docs]
    starts = list(accumulate(lengths, initial=0))
    tokens, rows = [], []
    for (doc, pieces), start in zip(docs, starts):
        texts = [token.text for token in doc]
        for piece in pieces:
            tokens.append([texts[i] for i in piece.tolist()])
            rows.append(start + piece)
    return Sentences(tokens, rows, starts[-1]), lengths


def _forward(
    model: Encoder, docs: Sequence[Doc | DocPieces], is_train: bool
) -> tuple[LayerBatch, Callable[[LayerBatch], list[Doc]]]:
    sentences, lengths = sentences_of(cut(model, docs))
    layers_LND, backprop = model.layers[0](sentences, is_train)
    return LayerBatch(layers_LND, lengths), lambda d_layers: backprop(d_layers.values)


def _forward_sentences(
    model: Model[Sentences, Floats3d], sentences: Sentences, is_train: bool
) -> tuple[Floats3d, Callable[[Floats3d], list[Any]]]:
    shim: Any = model.shims[0]
    if not shim.has_weights:
        raise ValueError(Errors.EL050.format(name="spacy-elmo.BiLM.v1"))
    xp: Any = model.ops.xp
    tokens, rows, n_rows = sentences
    n_layers, width = shim.bilm_config.n_layers + 1, shim.bilm_config.width
    layers_LND: Any = model.ops.alloc3f(n_layers, n_rows, width)
    computed: list[tuple[Any, Any, tuple[int, int, int], Callable[[Any], Any]]] = []

    def compute(group: Sequence[int]) -> tuple[PackedBatch, Any, Any]:
        batch = pack([tokens[s] for s in group])
        return batch, *run(shim, (batch,), is_train, pick=itemgetter(0))

    for whole in batch_by_tokens(tokens, shim.batch_tokens):
        for group, (batch, Y_LND, backprop_group) in compute_what_fits(
            tokens, whole, compute
        ):
            to_N = xp.asarray(np.concatenate([rows[s] for s in group]))
            from_N = xp.asarray(np.concatenate(batch.positions))
            layers_LND[:, to_N] = Y_LND[:, from_N]
            if is_train:
                computed.append((to_N, from_N, Y_LND.shape, backprop_group))

    def backprop(d_layers_LND: Any) -> list[Any]:
        for to_N, from_N, shape, backprop_group in computed:
            dY_LND: Any = model.ops.alloc3f(*shape)
            dY_LND[:, from_N] = d_layers_LND[:, to_N]
            backprop_group(dY_LND)
        return []

    return layers_LND, backprop
