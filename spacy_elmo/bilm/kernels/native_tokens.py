"""The char-CNN, highway layers and projection by the C library.

A group of columns holds filters of one width, so that a filter sums over no more
characters than its width, and its last window ends with the ids of the word.

Shapes: V distinct words, C characters, d width of a character, S filters, M rows, H
output.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from ...machine import join_rows
from ..config import BiLMConfig
from ..token_encoder import CharCnnEncoder, Highway
from . import native
from .char_cnn import join_filters
from .kernel import DispatchKey
from .native import BFLOAT16, Library, checked_floats, checked_rows, pick

# Words that are encoded at once, which bounds memory (docs/kernels.md).
WORDS_AT_ONCE = 288

Fields = dict[str, Any]  # of a struct of elmo.h, by their names


class Weights(NamedTuple):
    """The packed weights of a token encoder.

    Attributes:
        library: The C library.
        filters: Fields of `elmo_char_cnn`.
        highways: Fields of an `elmo_product` for each highway layer.
        projection: The same of the projection, if there is one.
    """

    library: Library
    filters: Fields
    highways: list[Fields]
    projection: Fields | None


def can_run(key: DispatchKey, config: BiLMConfig) -> bool:
    """Return whether the library can compute."""
    return key.is_native


@torch.no_grad()
def prepare(encoder: CharCnnEncoder, key: DispatchKey) -> Weights:
    """Return the packed weights of a token encoder."""
    library = native.load(key.instructions)
    mode = library.mode(key.precision)
    matrix = partial(_matrix, library, mode)
    # Both matrices of a highway layer are one: half of a group's columns are from each.
    highways = [
        matrix(
            [each.carry_weight, each.transform_weight],
            [each.carry_bias, each.transform_bias],
        )
        for each in cast(list[Highway], encoder.highways)
    ]
    weight, bias, projection = encoder.projection_weight, encoder.projection_bias, None
    if weight is not None and bias is not None:
        projection = matrix([weight], [bias])
    return Weights(library, _filters(library, mode, encoder), highways, projection)


def _matrix(
    library: Library, mode: int, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> Fields:
    K, N = weights[0].shape
    columns = library.columns(N, len(weights))
    weight, bias = library.pack(mode, columns, *weights), pick(columns, *biases)
    return {"mode": mode, "n_in": K, "n_out": N, "weight": weight, "bias": bias}


def _filters(library: Library, mode: int, encoder: CharCnnEncoder) -> Fields:
    odd = encoder.char_embedding.shape[1] % 2
    # bfloat16 is read in pairs, so vectors of characters get an even width.
    table = F.pad(encoder.char_embedding, (0, odd))
    widths: list[int] = []  # of each group
    columns, packed, first = [], [], 0
    for weight in encoder.conv_weights:
        n, _, width = weight.shape
        within = library.columns(n)
        rows = join_filters(F.pad(weight, (0, 0, 0, odd)))
        packed.append(library.pack(mode, within, rows).flatten())
        columns.append(torch.where(within < 0, -1, first + within))
        widths += len(within) // (4 * library.vector) * [width]
        first += n
    return {
        "mode": mode,
        "is_tanh": encoder.activation is torch.tanh,
        "char_dim": table.shape[1],
        "n_groups": len(widths),
        "n_filters": first,
        "table": table.bfloat16() if mode == BFLOAT16 else table.contiguous(),
        "filters": torch.cat(packed),
        "widths": torch.tensor(widths),
        "columns": torch.cat(columns),
        "bias": torch.cat(list(encoder.conv_biases)),
    }


def encode(
    encoder: CharCnnEncoder,
    weights: Weights,
    parts: Sequence[Tensor],
    word_ids_V: Tensor | None = None,
) -> Tensor:
    """Return token vectors, (V, H).

    Args:
        encoder: The definition.
        weights: The result of `prepare`.
        parts: Character ids (V, C), in one or more parts of different widths.
        word_ids_V: Word ids of all parts, in models that read both.

    Raises:
        IndexError: There is no character of an id.
        ValueError: A filter is wider than the words are long.
        MemoryError: [EL096] There is no memory for the library's buffers.
    """
    found, first = [], 0
    for ids_VC in (some for part in parts for some in part.split(WORDS_AT_ONCE)):
        x_VS = _char_cnn(weights.library, weights.filters, ids_VC)
        for highway in weights.highways:
            x_VS = _multiply(weights.library, "highway", highway, x_VS)
        if encoder.word_embedding is not None and word_ids_V is not None:
            word_ids = word_ids_V[first : first + len(ids_VC)]
            words_VW = encoder.word_embedding.detach()[word_ids]
            x_VS = torch.cat([words_VW, x_VS], dim=1)
        if weights.projection is not None:
            x_VS = _multiply(weights.library, "linear", weights.projection, x_VS)
        found.append(x_VS)
        first += len(ids_VC)
    return join_rows(found)


def _char_cnn(library: Library, filters: Fields, ids_VC: Tensor) -> Tensor:
    """Return the maximum of each filter, activated, (V, S)."""
    V, C = ids_VC.shape
    ids_VC = checked_rows(ids_VC, len(filters["table"]), V, C)
    if int(filters["widths"].max()) > C:
        raise ValueError(f"words of {C} characters for filters that are wider")
    y_VS = torch.empty(V, filters["n_filters"], dtype=torch.float32, device="cpu")
    call = {"n_words": V, "n_columns": C, "ids": ids_VC, "out": y_VS}
    library.call("char_cnn", library.new("elmo_char_cnn", **filters, **call))
    return y_VS


def _multiply(library: Library, function: str, matrix: Fields, x_MK: Tensor) -> Tensor:
    """Apply a matrix to x by a function of the library. Return the result, (M, N)."""
    M = len(x_MK)
    x_MK = checked_floats(x_MK, M, matrix["n_in"])
    y_MN = x_MK.new_empty(M, matrix["n_out"])
    task = library.new("elmo_product", **matrix, n_rows=M, x=x_MK, out=y_MN)
    library.call(function, task)
    return y_MN
