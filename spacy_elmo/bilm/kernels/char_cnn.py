"""The token encoder in PyTorch, for training, for GPUs, and for CPUs without the C
library. The char-CNN is one matrix multiplication with all filters.

A CPU reads words sorted by length. That is three times as fast as a convolution for
each width over the longest word (docs/kernels.md). A GPU can't be asked for lengths
without waiting for it, so it reads all words as far as the longest. It does not use
cuDNN, which looks up a plan for each shape.

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
from .kernel import DispatchKey
from .matmul import Matmul, prepare_matmul

# Words that a CPU reads at once, of about the same length, and filter outputs that a
# GPU computes at once: 0.5 GB (docs/kernels.md).
WORDS_AT_ONCE = 32
OUTPUTS_ON_GPU = 1 << 27


class Weights(NamedTuple):
    """The prepared weights of a token encoder.

    Attributes:
        key: The dispatch key that they were prepared for.
        filters: All filters, by `join_filters`.
        highways: The carry and the transform matrix of each highway layer.
        projection: The projection, if there is one.
    """

    key: DispatchKey
    filters: Matmul
    highways: list[tuple[Matmul, Matmul]]
    projection: Matmul | None


def can_run(key: DispatchKey, config: BiLMConfig) -> bool:
    """Return whether the device is a CPU or a CUDA GPU."""
    return key.device in ("cpu", "cuda")


def prepare(encoder: CharCnnEncoder, key: DispatchKey) -> Weights:
    """Return the prepared weights of a token encoder."""
    projection, highways = encoder.projection_weight, encoder.highways
    return Weights(
        key,
        prepare_matmul(join_filters(*encoder.conv_weights), key),
        [
            (prepare_matmul(carry, key), prepare_matmul(transform, key))
            for carry, transform in map(_weights_of, highways)
        ],
        None if projection is None else prepare_matmul(projection, key),
    )


def _weights_of(highway: Any) -> tuple[Tensor, Tensor]:
    return highway.carry_weight, highway.transform_weight


def encode(
    encoder: CharCnnEncoder,
    weights: Weights,
    ids_VC: Tensor,
    word_ids_V: Tensor | None = None,
) -> Tensor:
    """Return token vectors, (V, H).

    Without a gradient a CPU encodes one word after another, on one thread. So no vector
    depends on the other words (torch_lstm.py says why).

    Args:
        encoder: The definition, with its weights.
        weights: The result of `prepare`.
        ids_VC: Character ids.
        word_ids_V: Word ids, in models that read both.
    """
    if weights.key.device != "cpu":
        return encode_parts(encoder, weights, [ids_VC], word_ids_V)
    if not weights.key.gradient:
        word_ids = [None] * len(ids_VC) if word_ids_V is None else word_ids_V.split(1)
        words = zip(ids_VC.split(1), word_ids)
        with thread_count(1):
            return torch.cat([encode_parts(encoder, weights, [w], i) for w, i in words])
    order_V = torch.argsort(lengths(ids_VC))
    # The shortest word is repeated, so that the number of words is a usual one.
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
    """Return token vectors, (V, H), of words in several parts.

    Args:
        encoder: The definition, with its weights.
        weights: The result of `prepare`.
        parts: Character ids (V, C). Each part is as wide as its longest word needs. On
            a CPU the words of a part are sorted by length.
        word_ids_V: Word ids of all parts, in models that read both.
    """
    highways: Any = encoder.highways
    x_VS = torch.cat([char_features(encoder, weights, part) for part in parts])
    for highway, (carry, transform) in zip(highways, weights.highways):
        carry_VS = carry.linear(x_VS, highway.carry_bias).sigmoid()
        new_VS = transform.linear(x_VS, highway.transform_bias).relu()
        # Matrices may be multiplied in bfloat16; the sum is not computed in it.
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
        sorted_by_length=weights.key.device == "cpu",
    )
    # The bias is added after the maximum: C times fewer sums.
    return encoder.activation(largest_VS + torch.cat(list(encoder.conv_biases)))


def run(
    char_embedding: Tensor,
    conv_weights: Sequence[Tensor],
    filters: Matmul,
    ids_VC: Tensor,
    *,
    sorted_by_length: bool = True,
) -> Tensor:
    """Return the maximum of every filter over all positions, before the bias, (V, S).

    Args:
        char_embedding: Vectors of characters.
        conv_weights: The filters of each width, (S of this width, d, width).
        filters: `join_filters(*conv_weights)`, prepared.
        ids_VC: Character ids.
        sorted_by_length: Whether words are sorted by `lengths`. Some words are then
            read at a time, as far as the longest of them.
    """
    W, C = max(weight.shape[2] for weight in conv_weights), ids_VC.shape[1]
    n_filters = sum(len(weight) for weight in conv_weights)
    on_gpu = max(1, OUTPUTS_ON_GPU // (n_filters * (C + W)))
    n_words = WORDS_AT_ONCE if sorted_by_length else on_gpu
    length_V = lengths(ids_VC) if sorted_by_length else None
    largest = []
    for first in range(0, len(ids_VC), n_words):
        some_VC, longest = ids_VC[first : first + n_words], C + W
        if length_V is not None:  # one window of padding is enough
            longest = int(length_V[first : first + n_words][-1]) + W
            some_VC = some_VC[:, :longest]
        if longest > C:  # add columns, so that the window is complete
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
    """The maximum over positions, with the gradient of `Tensor.amax`: equal positions
    share it. The comparisons of `amax` take five times as long (docs/kernels.md)."""

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
    """Return how many words to add, at most a sixteenth, so that few sizes of matrix
    multiplications occur. oneDNN compiles code for each size that it meets, and keeps
    it (docs/kernels.md)."""
    return -n_words % (1 << max(2, n_words.bit_length() - 5))


def lengths(ids_VC: Tensor) -> Tensor:
    """Return the length of each word without the run of equal ids at its end, (V,).
    This run is the padding, whose windows are all equal."""
    differs_VC = ids_VC != ids_VC[:, -1:]
    numbers_C = torch.arange(1, ids_VC.shape[1] + 1, device=ids_VC.device)
    return (differs_VC * numbers_C).amax(dim=1)


def join_filters(*conv_weights: Tensor) -> Tensor:
    """Return all filters as one matrix, (W * d, S), a filter a column. Zeros follow the
    weights of narrow filters."""
    widest = max(weight.shape[2] for weight in conv_weights)
    columns = []
    for weight in conv_weights:
        n, char_dim, width = weight.shape
        rows = weight.permute(2, 1, 0).reshape(width * char_dim, n)
        columns.append(F.pad(rows, (0, 0, 0, (widest - width) * char_dim)))
    return torch.cat(columns, dim=1)
