"""Docs -> the layers of each of their tokens: `spacy-elmo.BiLM.v1`.

    Docs -> pieces (windows.py) -> Sentences -> in_batches (../bilm) -> LayerBatch

Row i of a Doc's layers is its token i. White space, which the biLM doesn't read, has
rows of zeros.

Shapes: L1 layers (the token layer included), N tokens of all Docs, D width.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast, overload

import numpy as np
import srsly
import torch
from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Model, torch2xp, xp2torch
from thinc.types import Floats3d
from torch import Tensor

from .. import models as shipped
from ..bilm import (
    CACHE_WORDS,
    BiLMConfig,
    PackedBatch,
    check_finite,
    in_batches,
)
from ..errors import Errors
from ..files import bytes_with_checksum, parsing, read_bytes, write_files
from ..machine import (
    Precision,
    copy_rows,
    default_settings,
    prepare_for_forks,
    to_device,
    zeros,
)
from .shim import SAVED, SAVED_AS, BiLMShim
from .windows import DocPieces, SpanGetter, configure_windows

DROPOUT = {"dropout_rate": 0.0}  # of the LSTM layers' inputs; an update sets it
PIPE_TOKENS = 16_384  # of a group of Docs at least, if there are as many

Encoder = Model[Sequence[Doc | DocPieces], "LayerBatch"]


def nothing() -> None:
    """Do nothing."""


class LayerBatch(Sequence[Floats3d]):
    """The layers of Docs in one array, the tokens of each Doc after those of the last.

    As a sequence it holds the layers of each Doc, (L1, T, D): views, which keep the
    whole array in memory as long as one of them is kept.

    Args:
        values: float32 (L1 layers, N tokens of all Docs, width D).
        lengths: Number of tokens of each Doc; their sum is N.
        check: Raises ValueError [EL078] if some are not finite; a GPU is waited for.
    """

    def __init__(
        self,
        values: Floats3d,
        lengths: Sequence[int],
        check: Callable[[], None] = nothing,
    ) -> None:
        self.values, self.check = values, check
        self.lengths = list(lengths)
        self._starts = list(accumulate(self.lengths, initial=0))

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, which: int) -> Floats3d: ...
    @overload
    def __getitem__(self, which: slice) -> "LayerBatch": ...
    def __getitem__(self, which: int | slice) -> "Floats3d | LayerBatch":
        """Return the layers of one Doc, or those of neighbouring Docs as a batch."""
        values: Any = self.values
        if isinstance(which, int):
            d = range(len(self))[which]
            return values[:, self._starts[d] : self._starts[d + 1]]
        start, stop, _ = which.indices(len(self))
        part = values[:, self._starts[start] : self._starts[max(start, stop)]]
        return LayerBatch(part, self.lengths[start:stop])

    def __repr__(self) -> str:
        shape = tuple(self.values.shape)
        return f"LayerBatch of {len(self)} Docs, (layers, tokens, width) = {shape}"

    def split(self, rows: Any) -> list[Any]:
        """Return the rows of each Doc, of an array (N, ...) with one a token."""
        return [rows[start:stop] for start, stop in pairwise(self._starts)]


class EncoderModel(Model[Any, Any]):
    """The model of a biLM, whose bytes have a checksum, and whose file is replaced as a
    whole."""

    def to_bytes(self) -> bytes:
        """Return the model as bytes."""
        return bytes_with_checksum(super().to_bytes())

    def from_bytes(self, bytes_data: bytes) -> "EncoderModel":
        """Load the biLM that `to_bytes` returned, with its sizes if none were chosen.
        All else is what the configuration says.

        Raises:
            ValueError: [EL002] It was changed, or is of another model. Also as
                `BiLMShim.from_bytes`. It warns [ELW52] if there is no checksum.
        """
        with parsing(Errors.EL002, SAVED, format=SAVED_AS):
            message = srsly.msgpack_loads(read_bytes(bytes_data, SAVED))
            (), (saved,) = message["shims"]
        shim = shim_of(self).from_bytes(saved)
        self.set_dim("nO", shim.bilm.config.width, force=True)
        return self

    def to_disk(self, path: Path | str) -> None:
        """Write the file. Raises OSError [EL013] if it can't be written."""
        path, data = Path(path), self.to_bytes()
        write_files(path.parent, {path.name: partial(Path.write_bytes, data=data)})


class Sentences(NamedTuple):
    """The sentences that the biLM reads of Docs, and the rows of the result that the
    vectors of each sentence fill. Other rows are zeros."""

    tokens: list[list[str]]
    rows: list[np.ndarray]
    lengths: list[int]  # of the Docs, in tokens, each of which has a row


@registry.architectures("spacy-elmo.BiLM.v1")
def build_bilm(
    *,
    hidden_dim: int | None = None,
    projection_dim: int | None = None,
    n_layers: int | None = None,
    n_words: int | None = None,
    word_dim: int | None = None,
    characters: str | None = None,
    char_dim: int | None = None,
    filters: Any = None,
    activation: str | None = None,
    n_highway: int | None = None,
    max_characters: int | None = None,
    n_characters: int | None = None,
    token_projection: bool | None = None,
    lstm_projection: bool | None = None,
    skip_connections: bool | None = None,
    cell_clip: float | None = None,
    proj_clip: float | None = None,
    forget_bias: float | None = None,
    batch_tokens: int | None = None,
    cache_words: int = CACHE_WORDS,
    precision: str = "float32",
    get_spans: SpanGetter | None = None,
) -> Encoder:
    """Return a biLM as a Thinc model from Docs to a `LayerBatch`.

    If no size is given here, the sizes are those of the weights. If one is given, the
    weights must have it, and the sizes that are not given are those of the shipped
    model, which has no clips.

    Args:
        hidden_dim: Cells of a direction. This and the sizes below: see `BiLMConfig`.
        projection_dim: Width of a direction's output.
        n_layers: LSTM layers of a direction.
        n_words: Rows of the word embedding.
        word_dim: Width of the word embedding beside the char-CNN.
        characters: "bytes" or "alphabet".
        char_dim: Width of the character embedding.
        filters: Pairs of a width in characters and a number.
        activation: Of the filters, "relu" or "tanh".
        n_highway: Highway layers.
        max_characters: Characters of a word that are read.
        n_characters: Rows of the character embedding.
        token_projection: Whether token vectors are projected.
        lstm_projection: Whether the state of an LSTM layer is projected.
        skip_connections: Whether layers but the first are residual.
        cell_clip: Bound of the cells.
        proj_clip: Bound of the projected state.
        forget_bias: Added to the forget gate.
        batch_tokens: Tokens computed at once at most, which bounds memory; None for
            4,096 on a CPU and 32,768 on a GPU.
        cache_words: Words whose token vectors are kept from batch to batch at most.
        precision: Of prediction: "float32", "half", or "tf32" on a GPU. Training is in
            float32.
        get_spans: Cuts a Doc into the pieces that the biLM reads one by one;
            `spacy-elmo.Windows.v1` by default.

    Raises:
        ValueError: [EL020] if the sizes don't fit together, [EL026] for batch_tokens,
            [EL073] for the precision.
    """
    arguments, sizes = locals(), shipped.sizes()
    given = {name: arguments[name] for name in sizes if arguments[name] is not None}
    config = BiLMConfig.from_dict({**sizes, **given})
    shim = BiLMShim(config, cache_words, cast(Precision, precision), batch_tokens)
    shim.sizes_chosen = bool(given)
    return EncoderModel(
        "elmo-encoder",
        _forward,
        layers=[Model("bilm", _forward_sentences, shims=[shim], attrs=DROPOUT)],
        dims={"nO": config.width},
        attrs={"get_spans": get_spans or configure_windows()},
    )


def shim_of(encoder: Encoder) -> BiLMShim:
    """Return the shim that holds the biLM of an encoder."""
    return encoder.layers[0].shims[0]  # type: ignore[return-value]


def cut(encoder: Encoder, docs: Sequence[Doc | DocPieces]) -> list[DocPieces]:
    """Return Docs with the pieces that the encoder's get_spans cuts them into, unless
    they come with pieces."""
    get_spans: SpanGetter = encoder.attrs["get_spans"]
    return [
        doc if isinstance(doc, DocPieces) else DocPieces(doc, get_spans(doc))
        for doc in docs
    ]


def group_docs(
    encoder: Encoder, docs: Iterable[Doc], batch_size: int | None = None
) -> Iterator[list[Doc]]:
    """Yield Docs in order, in groups of batch_size Docs at most. A group has about two
    batches of the biLM: enough to batch sentences of similar length, and few enough to
    keep little of long Docs in memory."""
    enough = max(PIPE_TOKENS, 2 * shim_of(encoder).batch_tokens)
    group: list[Doc] = []
    n_tokens = 0
    for doc in docs:
        group.append(doc)
        n_tokens += len(doc)
        if len(group) == batch_size or n_tokens >= enough:
            yield group
            group, n_tokens = [], 0
    if group:
        yield group


def sentences_of(docs: Sequence[DocPieces]) -> Sentences:
    """Return the sentences of Docs."""
    lengths = [len(doc) for doc, _ in docs]
    tokens, rows = [], []
    for (doc, pieces), start in zip(docs, accumulate(lengths, initial=0)):
        texts = [token.text for token in doc]
        for piece in pieces:
            tokens.append([texts[i] for i in piece.tolist()])
            rows.append(start + piece)
    return Sentences(tokens, rows, lengths)


def _forward(
    model: Encoder, docs: Sequence[Doc | DocPieces], is_train: bool
) -> tuple[LayerBatch, Callable[[LayerBatch], list[Doc]]]:
    sentences = sentences_of(cut(model, docs))
    layers_LND, backprop = model.layers[0](sentences, is_train)
    layers = as_batch(layers_LND, sentences)
    return layers, lambda d_layers: backprop(d_layers.values)


def as_batch(layers_LND: Floats3d, sentences: Sentences) -> LayerBatch:
    """Return the layers of Docs, with a check that they are finite. Nothing is left to
    check on a CPU, or of Docs without tokens, whose arrays have no address on a GPU."""
    check: Callable[[], None] = nothing
    if layers_LND.size and not isinstance(layers_LND, np.ndarray):
        check = check_finite(xp2torch(layers_LND), sentences.tokens, sentences.rows)
    return LayerBatch(layers_LND, sentences.lengths, check)


# Of a batch: where each row of its layers goes and where it comes from, the layers, and
# their backward pass.
Computed = tuple[Tensor, Tensor, Callable[[Tensor], None]]


@default_settings()
def _forward_sentences(
    model: Model[Sentences, Floats3d], sentences: Sentences, is_train: bool
) -> tuple[Floats3d, Callable[[Floats3d], list[Any]]]:
    shim: Any = model.shims[0]
    if not shim.has_weights:
        raise Errors.EL050(name="spacy-elmo.BiLM.v1")
    prepare_for_forks()
    tokens, rows, lengths = sentences
    config, device = shim.bilm.config, shim.bilm.device
    dropout = model.attrs["dropout_rate"] if is_train else None
    # Layers of all sentences in one array, which every batch is written into.
    shape = config.n_layers + 1, sum(lengths), 2 * config.projection_dim
    layers_LND = zeros(shape, device)
    computed: list[Computed] = []

    def compute(some: Sequence[int], batch: PackedBatch) -> Computed:
        Y_LND, backprop_batch = shim.compute(batch, dropout)
        if device.type == "cpu":
            check_finite(Y_LND.detach(), [tokens[s] for s in some], batch.positions)
        to_N = np.concatenate([rows[s] for s in some])
        places = to_device(np.stack([to_N, np.concatenate(batch.positions)]), device)
        copy_rows(Y_LND.detach(), places[1], layers_LND, places[0])
        return places, Y_LND, backprop_batch

    for _, batch in in_batches(tokens, shim.batch_tokens, compute):
        if is_train:
            computed.append(batch)

    @default_settings()
    def backprop(d_layers_LND: Any) -> list[Any]:
        d_LND = xp2torch(d_layers_LND, device=device)
        for (to_N, from_N), Y_LND, backprop_batch in computed:
            dY_LND = torch.zeros_like(Y_LND)
            copy_rows(d_LND, to_N, dY_LND, from_N)
            backprop_batch(dY_LND)
        return []

    return cast(Floats3d, torch2xp(layers_LND)), backprop
