"""Docs -> the layers of each of their tokens: `spacy-elmo.BiLM.v1`.

    Docs -> pieces (spans.py) -> Sentences -> batches (-> shim.py) -> LayerBatch

Row i of a Doc's layers is its token i. White space, which the biLM doesn't read, has
rows of zeros.

Shapes: L1 layers (the token layer included), N tokens of all Docs, D width.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, cast

import numpy as np
import srsly
import torch
from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import ArgsKwargs, Model, torch2xp, xp2torch
from thinc.types import Floats3d
from torch import Tensor

from ..bilm import (
    CACHE_WORDS,
    BiLMConfig,
    PackedBatch,
    check_finite,
    in_batches,
)
from ..errors import Errors
from ..machine import Precision, default_settings, prepare_for_forks, to_device
from .fields import takes_fields_of
from .layer_batch import LayerBatch, nothing
from .sealed_model import SAVED, CheckedModel
from .shim import BiLMShim
from .spans import DocPieces, SpanGetter, configure_windows, docs_by_tokens

DROPOUT = {"dropout_rate": 0.0}  # of the LSTM layers' inputs; an update sets it
PIPE_TOKENS = 16_384  # of a group of Docs at least, if there are as many

Encoder = Model[Sequence[Doc | DocPieces], LayerBatch]


class EncoderModel(CheckedModel):
    """The model of a biLM, with the checksum of `CheckedModel`."""

    def from_dict(self, msg: dict[str, Any]) -> "EncoderModel":
        """Load what `to_dict` returned; sizes that nobody has chosen give way to those
        of the weights. Raises ValueError [EL052] if other sizes were chosen."""
        shim = shim_of(self)
        _, (saved,) = msg["shims"]
        sizes = BiLMConfig.from_dict(srsly.msgpack_loads(saved)["config"])
        if shim.takes_sizes and not shim.has_weights:
            set_sizes(self, sizes)
        shim.check_sizes(sizes, SAVED)
        super().from_dict(msg)
        return self


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
    batch_tokens: int | None = None,
    cache_words: int = CACHE_WORDS,
    precision: str = "float32",
    get_spans: SpanGetter | None = None,
    **sizes: Any,
) -> Encoder:
    """Return a biLM as a Thinc model from Docs to a `LayerBatch`.

    Args:
        batch_tokens: Tokens computed at once at most, which bounds memory; None for
            4,096 on a CPU and 32,768 on a GPU.
        cache_words: Words whose token vectors are kept from batch to batch at most.
        precision: Of prediction: "float32", "half", or "tf32" on a GPU. Training is in
            float32.
        get_spans: Cuts a Doc into what the biLM reads at once; `spacy-elmo.Windows.v1`
            by default.
        sizes: As in `BiLMConfig`.

    Raises:
        ValueError: [EL020] if the sizes don't fit together, [EL026] for batch_tokens,
            [EL073] for the precision.
    """
    config = BiLMConfig.from_dict(sizes)
    shim = BiLMShim(config, cache_words, cast(Precision, precision), batch_tokens)
    return EncoderModel(
        "elmo-encoder",
        _forward,
        layers=[Model("bilm", _forward_sentences, shims=[shim], attrs=DROPOUT)],
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


def docs_at_once(
    encoder: Encoder, docs: Iterable[Doc], batch_size: int | None = None
) -> Iterator[list[Doc]]:
    """Yield Docs in order, in groups of batch_size Docs or some batches of the biLM:
    enough to batch sentences of like length, few enough that long Docs take little."""
    n_tokens = max(PIPE_TOKENS, 2 * shim_of(encoder).batch_tokens)
    return docs_by_tokens(docs, n_tokens, batch_size)


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
    layers = LayerBatch(layers_LND, lengths, check_rows(layers_LND, sentences))
    return layers, lambda d_layers: backprop(d_layers.values)


def check_rows(layers_LND: Floats3d, sentences: Sentences) -> Callable[[], None]:
    """Return what `check_finite` returns; nothing is left to do on a CPU, or of Docs
    without tokens, whose arrays have no address on a GPU."""
    if isinstance(layers_LND, np.ndarray) or not layers_LND.size:
        return nothing
    return check_finite(xp2torch(layers_LND), sentences.tokens, sentences.rows)


# Of a batch: where each row of its layers goes and where it comes from, its layers, and
# their backward pass.
Computed = tuple[Tensor, Tensor, Callable[[Any], Any]]


@default_settings()
def _forward_sentences(
    model: Model[Sentences, Floats3d], sentences: Sentences, is_train: bool
) -> tuple[Floats3d, Callable[[Floats3d], list[Any]]]:
    shim: Any = model.shims[0]
    if not shim.has_weights:
        raise ValueError(Errors.EL050.format(name="spacy-elmo.BiLM.v1"))
    prepare_for_forks()
    tokens, rows, n_rows = sentences
    config, device = shim.bilm_config, shim.bilm.device
    options = {"dropout": model.attrs["dropout_rate"]} if is_train else {}
    # Layers of all sentences in one array, which every batch is written into.
    layers_LND = torch.zeros(
        *(config.n_layers + 1, n_rows, config.width), dtype=torch.float32, device=device
    )
    computed: list[Computed] = []

    def compute(some: Sequence[int], batch: PackedBatch) -> Computed:
        (Y_LND, _), backprop_some = shim(ArgsKwargs((batch,), options), is_train)
        if device.type == "cpu":
            check_finite(Y_LND.detach(), [tokens[s] for s in some], batch.positions)
        to_N = np.concatenate([rows[s] for s in some])
        places = to_device(np.stack([to_N, np.concatenate(batch.positions)]), device)
        _copy_rows(Y_LND.detach(), places[1], layers_LND, places[0])
        return places, Y_LND, backprop_some

    for _, batch in in_batches(tokens, shim.batch_tokens, compute):
        if is_train:
            computed.append(batch)

    @default_settings()
    def backprop(d_layers_LND: Any) -> list[Any]:
        d_LND = xp2torch(d_layers_LND, device=device)
        for (to_N, from_N), Y_LND, backprop_some in computed:
            dY_LND = torch.zeros_like(Y_LND)
            _copy_rows(d_LND, to_N, dY_LND, from_N)
            gradients = {"grad_tensors": (dY_LND,)}
            backprop_some(ArgsKwargs(((Y_LND,),), gradients))
        return []

    return cast(Floats3d, torch2xp(layers_LND)), backprop


def _copy_rows(source: Tensor, from_N: Tensor, target: Tensor, to_N: Tensor) -> None:
    """Copy rows of every layer; layer by layer, which fits a CPU's cache."""
    for source_ND, target_ND in zip(source, target):
        rows_ND = source_ND.index_select(0, from_N)
        target_ND.index_copy_(0, to_N, rows_ND.to(target_ND.dtype))
