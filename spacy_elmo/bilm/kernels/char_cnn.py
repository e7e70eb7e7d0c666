"""The token encoder in PyTorch, for training and for GPUs: the char-CNN is one matrix
multiplication with all filters, words sorted by length.

On a CPU that is three times as fast as a convolution for each width over the length of
the longest word. On a GPU, where lengths would be waited for, all words are read as far
as the longest; none of cuDNN's plans, one for each shape, is looked up.

Shapes: V distinct words sorted by length, C characters, d width of a character,
S filters, W width of the widest filter.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...machine import thread_count
from ..config import BiLMConfig
from ..token_encoder import CharCnnEncoder
from .kernel import Case
from .matmul import Matmul, prepare_matmul

WORDS_AT_ONCE = 32  # of like length
RESULTS_ON_GPU = 1 << 27  # 0.5 GB, of 1,170 words of 50 characters with 2,048 filters


class Weights(NamedTuple):
    """What a token encoder multiplies by: all filters, two matrices of each highway
    layer, and the projection."""

    case: Case
    filters: Matmul
    highways: list[tuple[Matmul, Matmul]]
    projection: Matmul | None


def can_run(case: Case, config: BiLMConfig) -> bool:
    """Return whether the kernel computes a case."""
    return case.device in ("cpu", "cuda")


def prepare(encoder: CharCnnEncoder, case: Case) -> Weights:
    """Return the weights to multiply by."""
    projection, highways = encoder.projection_weight, encoder.highways
    return Weights(
        case,
        prepare_matmul(join_filters(*encoder.conv_weights), case),
        [
            (prepare_matmul(carry, case), prepare_matmul(transform, case))
            for carry, transform in map(_weights_of, highways)
        ],
        None if projection is None else prepare_matmul(projection, case),
    )


def _weights_of(highway: Any) -> tuple[Tensor, Tensor]:
    return highway.carry_weight, highway.transform_weight


def encode(
    encoder: CharCnnEncoder,
    weights: Weights,
    ids_VC: Tensor,
    word_ids_V: Tensor | None = None,
) -> Tensor:
    """Return token vectors, (V, H). Without a gradient a CPU encodes one word after
    another on one thread, so that no vector depends on the others (torch_lstm.py)."""
    if weights.case.device != "cpu":
        return encode_parts(encoder, weights, [ids_VC], word_ids_V)
    if not weights.case.gradient:
        word_ids = [None] * len(ids_VC) if word_ids_V is None else word_ids_V.split(1)
        words = zip(ids_VC.split(1), word_ids)
        with thread_count(1):
            return torch.cat([encode_parts(encoder, weights, [w], i) for w, i in words])
    order_V = torch.argsort(lengths(ids_VC))
    # The shortest word is read more than once.
    n = n_more(len(ids_VC))
    read_V = torch.cat([order_V[:1].expand(n), order_V])
    word_ids_V = None if word_ids_V is None else word_ids_V[read_V]
    encoded_VH = encode_parts(encoder, weights, [ids_VC[read_V]], word_ids_V)
    return encoded_VH[n:][torch.argsort(order_V)]


def encode_parts(
    encoder: CharCnnEncoder,
    weights: Weights,
    parts: Sequence[Tensor],
    word_ids_V: Tensor | None = None,
) -> Tensor:
    """Return token vectors (V, H) of words in several parts, each as wide as its
    longest word needs it; on a CPU sorted by length."""
    highways: Any = encoder.highways
    x_VS = torch.cat([char_features(encoder, weights, part) for part in parts])
    for highway, (carry, transform) in zip(highways, weights.highways):
        carry_VS = carry.linear(x_VS, highway.carry_bias).sigmoid()
        new_VS = transform.linear(x_VS, highway.transform_bias).relu()
        # Where matrices are multiplied in bfloat16, the sum is not formed in it.
        x_VS = torch.lerp(x_VS, new_VS.to(x_VS.dtype), carry_VS.to(x_VS.dtype))
    if encoder.word_embedding is not None and word_ids_V is not None:
        words_VW = F.embedding(word_ids_V, encoder.word_embedding)
        x_VS = torch.cat([words_VW, x_VS], dim=1)
    if weights.projection is None:
        return x_VS
    return weights.projection.linear(x_VS, encoder.projection_bias)


def char_features(encoder: CharCnnEncoder, weights: Weights, ids_VC: Tensor) -> Tensor:
    """Return the maximum of every filter, activated, (V, S)."""
    largest_VS = run(
        encoder.char_embedding,
        list(encoder.conv_weights),
        weights.filters,
        ids_VC,
        sorted_by_length=weights.case.device == "cpu",
    )
    # The bias is added after the maximum, which leaves C times fewer sums.
    return encoder.activation(largest_VS + torch.cat(list(encoder.conv_biases)))


def run(
    char_embedding: Tensor,
    conv_weights: Sequence[Tensor],
    filters: Matmul,
    ids_VC: Tensor,
    *,
    sorted_by_length: bool = True,
) -> Tensor:
    """Return every filter's maximum over all positions, before the bias, (V, S), of
    words sorted by `lengths`, or, where these can't be asked for, of any words.
    filters: multiply by `join_filters(*conv_weights)`."""
    W, C = max(weight.shape[2] for weight in conv_weights), ids_VC.shape[1]
    n_filters = sum(len(weight) for weight in conv_weights)
    on_gpu = max(1, RESULTS_ON_GPU // (n_filters * (C + W)))
    n_words = WORDS_AT_ONCE if sorted_by_length else on_gpu
    length_V = lengths(ids_VC) if sorted_by_length else None
    largest = []
    for first in range(0, len(ids_VC), n_words):
        some_VC, longest = ids_VC[first : first + n_words], C + W
        if length_V is not None:  # one window of padding is enough
            longest = int(length_V[first : first + n_words][-1]) + W
            some_VC = some_VC[:, :longest]
        if longest > C:  # columns that are not there, so that all are multiplied alike
            some_VC = F.pad(some_VC, (0, longest - C))
        chars = F.embedding(some_VC.unfold(1, W, 1), char_embedding).flatten(2)
        rows = chars.flatten(0, 1)
        found = filters.linear(rows).unflatten(0, chars.shape[:2])
        if longest > C:
            # The last window of each filter ends where the word's ids do.
            last = [w.new_full((len(w),), C - w.shape[2]) for w in conv_weights]
            starts = torch.arange(C - W, found.shape[1], device=found.device)
            beyond = starts[:, None] > torch.cat(last)
            found[:, C - W :].masked_fill_(beyond, -torch.inf)
        largest.append(_Largest.apply(found))
    return torch.cat(largest)


class _Largest(torch.autograd.Function):
    """The maximum over positions. Its gradient is that of `Tensor.amax`, shared by
    positions that are alike, without the comparisons, which take five times as long."""

    @staticmethod
    def forward(ctx: Any, found_VLS: Tensor) -> Tensor:
        largest_VS = found_VLS.amax(dim=1)
        ctx.save_for_backward(found_VLS, largest_VS)
        return largest_VS

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_largest_VS: Tensor) -> Tensor:
        found_VLS, largest_VS = ctx.saved_tensors
        is_largest_VLS = (found_VLS - largest_VS[:, None]).sign_().add_(1)
        d_each_VS = d_largest_VS / is_largest_VLS.sum(dim=1)
        return is_largest_VLS.mul_(d_each_VS[:, None])


def n_more(n_words: int) -> int:
    """Return how many words more to read, at most a sixteenth, so that the sizes of
    matrix multiplications come again: for each that a batch of training brings, oneDNN
    makes code and keeps it."""
    return -n_words % (1 << max(2, n_words.bit_length() - 5))


def lengths(ids_VC: Tensor) -> Tensor:
    """Return the characters of words without the run of equal ids that they end in,
    their padding, (V,): windows within it are all alike."""
    differs_VC = ids_VC != ids_VC[:, -1:]
    numbers_C = torch.arange(1, ids_VC.shape[1] + 1, device=ids_VC.device)
    return (differs_VC * numbers_C).amax(dim=1)


def join_filters(*conv_weights: Tensor) -> Tensor:
    """Return all filters as one matrix, (W * d, S): a column a filter, narrow ones
    filled up with zeros."""
    widest = max(weight.shape[2] for weight in conv_weights)
    columns = []
    for weight in conv_weights:
        n, char_dim, width = weight.shape
        rows = weight.permute(2, 1, 0).reshape(width * char_dim, n)
        columns.append(F.pad(rows, (0, 0, 0, (widest - width) * char_dim)))
    return torch.cat(columns, dim=1)
