"""The char-CNN, highway layers and projection by the C library.

A vector of the processor holds filters of one width, so that a filter sums over no more
characters than its width, and its last window ends with the ids of the word.

Shapes: V distinct words, C characters, d width of a character, S filters, M rows, H
output.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..config import BiLMConfig
from ..token_encoder import CharCnnEncoder
from . import native
from .kernel import DispatchKey
from .native import BFLOAT16, Library, checked_floats, checked_rows, pick

# Words that are encoded at once, which bounds memory (docs/kernels.md).
WORDS_AT_ONCE = 288


class Matrix(NamedTuple):
    """A packed weight of n_in rows and n_out columns, and its bias."""

    weight: Tensor
    bias: Tensor
    n_in: int
    n_out: int


class Filters(NamedTuple):
    """All filters, packed.

    Attributes:
        table: Character embedding, in the dtype of matrix multiplications.
        weight: Packed weights, one group after another.
        widths: Width of the filters in each vector, 0 in an empty one.
        columns: Number of the filter in each column, -1 in an empty one.
        bias: Bias of each filter.
        is_tanh: Whether the activation is tanh; else it is relu.
    """

    table: Tensor
    weight: Tensor
    widths: Tensor
    columns: Tensor
    bias: Tensor
    is_tanh: bool


class Weights(NamedTuple):
    """The packed weights of a token encoder. mode: as in elmo.h."""

    library: Library
    mode: int
    filters: Filters
    highways: list[Matrix]
    projection: Matrix | None


def can_run(key: DispatchKey, config: BiLMConfig) -> bool:
    """Return whether the library can compute."""
    return key.is_native


@torch.no_grad()
def prepare(encoder: CharCnnEncoder, key: DispatchKey) -> Weights:
    """Return the packed weights of a token encoder."""
    library = native.load(key.instructions)
    mode, projection = library.mode(key.precision), None
    if encoder.projection_weight is not None and encoder.projection_bias is not None:
        projection = _matrix(
            library, mode, [encoder.projection_weight], [encoder.projection_bias]
        )
    highways = [_pack_highway(library, mode, each) for each in encoder.highways]
    return Weights(
        library, mode, _filters(library, mode, encoder), highways, projection
    )


def _pack_highway(library: Library, mode: int, highway: Any) -> Matrix:
    """Return both matrices of a highway layer as one. Half of a group's columns are
    from each of them."""
    weights = [highway.carry_weight, highway.transform_weight]
    return _matrix(library, mode, weights, [highway.carry_bias, highway.transform_bias])


def _matrix(
    library: Library, mode: int, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> Matrix:
    K, N = weights[0].shape
    columns = library.columns(N, len(weights))
    packed = library.pack(mode, columns, *weights)
    return Matrix(packed, pick(columns, *biases), K, N)


def _filters(library: Library, mode: int, encoder: CharCnnEncoder) -> Filters:
    d, vector = encoder.char_embedding.shape[1], library.vector
    d_even = -(-d // 2) * 2  # bfloat16 is read in pairs
    widths, columns, padded = [], [], []
    first = 0
    for conv in encoder.conv_weights:
        n, _, width = conv.shape
        n_vectors = -(-n // vector)
        widths += n_vectors * [width]
        numbers = torch.arange(n_vectors * vector)
        columns.append(torch.where(numbers < n, first + numbers, -1))
        rows = conv.new_zeros(width, d_even, n)
        rows[:, :d] = conv.permute(2, 1, 0)
        padded.append(rows.flatten(0, 1))
        first += n
    n_groups = -(-len(widths) // 4)
    missing = 4 * n_groups - len(widths)
    widths += missing * [0]
    columns.append(torch.full((missing * vector,), -1))
    columns_N = torch.cat(columns)
    # All filters side by side, as long as the widest.
    widest = max(len(rows) for rows in padded)
    joined = torch.cat([_longer(rows, widest) for rows in padded], dim=1)
    groups = []
    for g in range(n_groups):
        rows = max(widths[4 * g : 4 * g + 4]) * d_even
        of_group = columns_N[4 * g * vector : 4 * (g + 1) * vector]
        groups.append(library.pack(mode, of_group, joined[:rows]).flatten())
    table = _longer(encoder.char_embedding.t(), d_even).t().contiguous()
    is_tanh = encoder.activation is torch.tanh
    return Filters(
        table.bfloat16() if mode == BFLOAT16 else table,
        torch.cat(groups),
        torch.tensor(widths),
        columns_N,
        torch.cat(list(encoder.conv_biases)),
        is_tanh,
    )


def _longer(rows: Tensor, n: int) -> Tensor:
    """Return a matrix with rows of zeros appended, n rows in all."""
    return torch.cat([rows, rows.new_zeros(n - len(rows), rows.shape[1])])


def encode(
    encoder: CharCnnEncoder,
    weights: Weights,
    ids_VC: Tensor,
    word_ids_V: Tensor | None = None,
) -> Tensor:
    """Return token vectors, (V, H).

    Args:
        encoder: The definition.
        weights: The result of `prepare`.
        ids_VC: Character ids.
        word_ids_V: Word ids, in models that read both.

    Raises:
        IndexError: There is no character of an id.
        ValueError: A filter is wider than the words are long.
        MemoryError: [EL096] There is no memory for the library's buffers.
    """
    ids_VC = checked_rows(ids_VC, len(weights.filters.table), *ids_VC.shape)
    parts = []
    for first in range(0, max(1, len(ids_VC)), WORDS_AT_ONCE):
        some = slice(first, first + WORDS_AT_ONCE)
        x_VS = _char_cnn(weights, ids_VC[some])
        for highway in weights.highways:
            x_VS = _multiply("highway", weights, highway, x_VS)
        if encoder.word_embedding is not None and word_ids_V is not None:
            words_VW = encoder.word_embedding.detach()[word_ids_V[some]]
            x_VS = torch.cat([words_VW, x_VS], dim=1)
        if weights.projection is not None:
            x_VS = _multiply("linear", weights, weights.projection, x_VS)
        parts.append(x_VS)
    return torch.cat(parts)


def _char_cnn(weights: Weights, ids_VC: Tensor) -> Tensor:
    """Return the maximum of each filter, activated, (V, S)."""
    filters, library = weights.filters, weights.library
    V, C = ids_VC.shape
    if int(filters.widths.max()) > C:
        raise ValueError(f"words of {C} characters for filters that are wider")
    found_VS = torch.empty(V, len(filters.bias), dtype=torch.float32, device="cpu")
    task = library.new(
        "elmo_char_cnn",
        mode=weights.mode,
        is_tanh=filters.is_tanh,
        n_words=V,
        n_columns=C,
        char_dim=filters.table.shape[1],
        n_groups=len(filters.widths) // 4,
        n_filters=len(filters.bias),
        ids=ids_VC,
        table=filters.table,
        filters=filters.weight,
        widths=filters.widths,
        columns=filters.columns,
        bias=filters.bias,
        out=found_VS,
    )
    library.call("char_cnn", task)
    return found_VS


def _multiply(function: str, weights: Weights, matrix: Matrix, x_MK: Tensor) -> Tensor:
    """Apply a matrix to x by a function of the library. Return the result, (M, N)."""
    x_MK = checked_floats(x_MK, len(x_MK), matrix.n_in)
    y_MN = x_MK.new_empty(len(x_MK), matrix.n_out)
    task = weights.library.new(
        "elmo_product",
        mode=weights.mode,
        n_rows=len(x_MK),
        n_in=matrix.n_in,
        n_out=matrix.n_out,
        x=x_MK,
        weight=matrix.weight,
        bias=matrix.bias,
        out=y_MN,
    )
    weights.library.call(function, task)
    return y_MN
