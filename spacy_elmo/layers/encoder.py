"""Docs -> biLM -> the layers of each Doc.

Sentences of all Docs are batched together, by a budget of tokens. Row i of a Doc's
layers is its token i; white space, which the biLM doesn't read, has rows of zeros.

Shapes: L1 layers (the token layer included), T tokens of a Doc, D width, N packed
positions of a batch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import ArgsKwargs, Model, torch2xp, xp2torch
from thinc.layers.pytorchwrapper import forward as pytorch_forward
from thinc.types import Floats3d

from ..bilm.batch import PackedBatch, batch_by_tokens, pack
from ..bilm.bilm import CACHE_WORDS
from ..bilm.config import PUBLISHED_FILTERS, BiLMConfig, Filters
from ..bilm.halves import in_halves
from ..bilm.kernels.products import Precision
from ..errors import Errors
from .shim import BiLMShim
from .spans import SpanGetter, configure_windows

# Docs are encoded in groups of about so many tokens: enough to batch sentences of like
# length, few enough that a pipe over long Docs holds little.
PIPE_TOKENS = 16_384

Pieces = list[np.ndarray]


class DocPieces(NamedTuple):
    """A Doc and the token indices of each piece of it that the biLM reads as a
    sentence."""

    doc: Doc
    pieces: Pieces


Encoder = Model[list[DocPieces], list[Floats3d]]


@registry.architectures("spacy-elmo.BiLM.v1")
def build_bilm(
    hidden_dim: int,
    projection_dim: int,
    n_layers: int = 2,
    n_words: int = 0,
    word_dim: int = 0,
    characters: str = "bytes",
    char_dim: int = 16,
    filters: list[list[int]] = [list(pair) for pair in PUBLISHED_FILTERS],  # noqa: B006
    activation: str = "relu",
    n_highway: int = 1,
    max_characters: int = 50,
    n_characters: int = 262,
    token_projection: bool = True,
    lstm_projection: bool = True,
    skip_connections: bool = True,
    cell_clip: float | None = 3.0,
    proj_clip: float | None = 3.0,
    forget_bias: float = 1.0,
    batch_tokens: int = 4096,
    cache_words: int = CACHE_WORDS,
    precision: str = "float32",
    get_spans: SpanGetter | None = None,
) -> Encoder:
    """A biLM as a Thinc model; sizes as in `BiLMConfig`.

    batch_tokens: tokens computed at once at most, which bounds memory.
    cache_words: words whose token vectors are kept from batch to batch at most.
    precision: of prediction: "float32", or "half" or "int8" where the processor has
        instructions for them; training is in float32.
    get_spans: cuts a Doc into what the biLM reads at once; `spacy-elmo.Windows.v1` if
        None.
    Raises ValueError [EL020, EL026, EL073].
    """
    if batch_tokens < 1:
        raise ValueError(Errors.EL026.format(found=batch_tokens))
    config = BiLMConfig(
        hidden_dim=hidden_dim,
        projection_dim=projection_dim,
        n_layers=n_layers,
        n_words=n_words,
        word_dim=word_dim,
        characters=characters,  # type: ignore[arg-type]
        char_dim=char_dim,
        filters=_pairs(filters),
        activation=activation,  # type: ignore[arg-type]
        n_highway=n_highway,
        max_characters=max_characters,
        n_characters=n_characters,
        token_projection=token_projection,
        lstm_projection=lstm_projection,
        skip_connections=skip_connections,
        cell_clip=cell_clip,
        proj_clip=proj_clip,
        forget_bias=forget_bias,
    )
    network: Model[PackedBatch, Floats3d] = Model(
        "bilm",
        pytorch_forward,
        attrs={"convert_inputs": _convert_inputs, "convert_outputs": _convert_outputs},
        shims=[BiLMShim(config, cache_words, cast(Precision, precision))],
    )
    return Model(
        "elmo-encoder",
        _forward,
        layers=[network],
        attrs={
            "batch_tokens": _Setting(batch_tokens),
            "get_spans": get_spans or configure_windows(),
        },
    )


def shim_of(encoder: Encoder) -> BiLMShim:
    return encoder.layers[0].shims[0]  # type: ignore[return-value]


def cut(encoder: Encoder, docs: list[Doc]) -> list[DocPieces]:
    """Docs with the pieces that the encoder's get_spans cuts them into."""
    get_spans: SpanGetter = encoder.attrs["get_spans"]
    return [DocPieces(doc, get_spans(doc)) for doc in docs]


def docs_by_tokens(stream: Iterable[Doc], batch_size: int) -> Iterator[list[Doc]]:
    """Docs in order, in groups of batch_size or of PIPE_TOKENS at most."""
    docs: list[Doc] = []
    tokens = 0
    for doc in stream:
        docs.append(doc)
        tokens += len(doc)
        if len(docs) >= batch_size or tokens >= PIPE_TOKENS:
            yield docs
            docs, tokens = [], 0
    if docs:
        yield docs


class _Setting:
    """A setting kept from Thinc, which would store it with the weights and let the
    stored one win over the configuration."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _pairs(filters: list[list[int]]) -> Filters:
    return tuple((width, n) for width, n in filters)


def _forward(
    model: Encoder, inputs: list[DocPieces], is_train: bool
) -> tuple[list[Floats3d], Callable[[list[Floats3d]], list]]:
    config = shim_of(model).bilm_config
    n_layers, width = config.n_layers + 1, config.width
    xp = model.ops.xp
    layers = [model.ops.alloc3f(n_layers, len(doc), width) for doc, _ in inputs]
    where = [(d, piece) for d, (_, pieces) in enumerate(inputs) for piece in pieces]
    texts = [[token.text for token in doc] for doc, _ in inputs]
    sentences = [[texts[d][i] for i in piece.tolist()] for d, piece in where]
    groups = []

    def compute(group: Sequence[int]) -> tuple[PackedBatch, Any, Any]:
        batch = pack([sentences[s] for s in group])
        return batch, *model.layers[0](batch, is_train)

    for whole in batch_by_tokens(sentences, model.attrs["batch_tokens"].value):
        for group, (batch, Y_LND, backprop_batch) in in_halves(
            sentences, whole, compute
        ):
            for s, positions in zip(group, batch.positions):
                d, piece = where[s]
                layers[d][:, xp.asarray(piece)] = Y_LND[:, xp.asarray(positions)]
            if is_train:
                groups.append((group, batch, Y_LND.shape, backprop_batch))

    def backprop(d_layers: list[Floats3d]) -> list:
        for group, batch, shape, backprop_batch in groups:
            dY_LND = model.ops.alloc3f(*shape)
            for s, positions in zip(group, batch.positions):
                d, piece = where[s]
                dY_LND[:, xp.asarray(positions)] = d_layers[d][:, xp.asarray(piece)]
            backprop_batch(dY_LND)
        return []

    return layers, backprop


def _convert_inputs(
    model: Model, batch: PackedBatch, is_train: bool
) -> tuple[ArgsKwargs, Callable[[Any], Any]]:
    return ArgsKwargs(args=(batch,), kwargs={}), lambda d_inputs: d_inputs


def _convert_outputs(
    model: Model, inputs_outputs: Any, is_train: bool
) -> tuple[Floats3d, Callable[[Floats3d], ArgsKwargs]]:
    _, (layers_LND, _) = inputs_outputs

    def convert_gradient(dY_LND: Floats3d) -> ArgsKwargs:
        gradient = xp2torch(dY_LND, device=layers_LND.device)
        return ArgsKwargs(args=((layers_LND,),), kwargs={"grad_tensors": (gradient,)})

    return cast(Floats3d, torch2xp(layers_LND)), convert_gradient
