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
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...machine import thread_count
from ..config import BiLMConfig
from ..token_encoder import CharCnnEncoder, Highway
from .kernel import DispatchKey
from .matmul import linear

# Words that a CPU reads at once, of about the same length, and filter outputs that a
# GPU computes at once: 0.5 GB (docs/kernels.md).
WORDS_AT_ONCE = 32
OUTPUTS_ON_GPU = 1 << 27


class Weights(NamedTuple):
    """The prepared weights of a token encoder.

    Attributes:
        key: The dispatch key that they were prepared for.
        filters: All filters, by `join_filters`.
        highways: The carry and the transform weight of each highway layer.
        projection: The weight of the projection, if there is one.
    """

    key: DispatchKey
    filters: Tensor
    highways: list[tuple[Tensor, Tensor]]
    projection: Tensor | None


def can_run(key: DispatchKey, config: BiLMConfig) -> bool:
    """Return whether the device is a CPU or a CUDA GPU."""
    return key.device in ("cpu", "cuda")


def prepare(encoder: CharCnnEncoder, key: DispatchKey) -> Weights:
    """Return the prepared weights of a token encoder. Where a gradient is asked for
    they are those of the encoder, which autocast rounds."""

    def low(weight: Tensor) -> Tensor:
        return weight if key.gradient else weight.detach().to(key.matmul_dtype)

    projection, highways = encoder.projection_weight, encoder.highways
    return Weights(
        key,
        low(join_filters(*encoder.conv_weights)),
        [
            (low(highway.carry_weight), low(highway.transform_weight))
            for highway in cast(list[Highway], highways)
        ],
        None if projection is None else low(projection),
    )


def encode(
    encoder: CharCnnEncoder,
    weights: Weights,
    parts: Sequence[Tensor],
    word_ids_V: Tensor | None = None,
) -> Tensor:
    """Return token vectors, (V, H).

    Without a gradient a CPU encodes one word after another, on one thread. So no vector
    depends on the other words (layer_by_layer.py says why).

    Args:
        encoder: The definition, with its weights.
        weights: The result of `prepare`.
        parts: Character ids (V, C), in one or more parts of different widths.
        word_ids_V: Word ids of all parts, in models that read both.
    """
    if weights.key.device != "cpu":
        return _encode(encoder, weights, parts, word_ids_V)
    if not weights.key.gradient:
        parts = [word for part in parts for word in part.split(1)]
    sizes = [len(part) for part in parts]
    word_ids = [None] * len(parts) if word_ids_V is None else word_ids_V.split(sizes)
    each = zip(parts, word_ids)
    if weights.key.gradient:
        return torch.cat([_encode_sorted(encoder, weights, *part) for part in each])
    with thread_count(1):
        return torch.cat([_encode(encoder, weights, [word], i) for word, i in each])


def _encode_sorted(
    encoder: CharCnnEncoder, weights: Weights, ids_VC: Tensor, word_ids_V: Tensor | None
) -> Tensor:
    """Compute `encode` with the words sorted by length."""
    order_V = torch.argsort(lengths(ids_VC))
    # The shortest word is repeated, so that the number of words is a usual one.
    n = n_more(len(ids_VC))
    read_V = torch.cat([order_V[:1].expand(n), order_V])
    word_ids_V = None if word_ids_V is None else word_ids_V[read_V]
    encoded_VH = _encode(encoder, weights, [ids_VC[read_V]], word_ids_V)
    return encoded_VH[n:][torch.argsort(order_V)]


def _encode(
    encoder: CharCnnEncoder,
    weights: Weights,
    parts: Sequence[Tensor],
    word_ids_V: Tensor | None,
) -> Tensor:
    """Compute `encode`. On a CPU the words of a part are sorted by length."""
    x_VS = torch.cat([_char_features(encoder, weights, part) for part in parts])
    highways = cast(list[Highway], encoder.highways)
    for highway, (carry, transform) in zip(highways, weights.highways):
        carry_VS = linear(x_VS, carry, highway.carry_bias).sigmoid()
        new_VS = linear(x_VS, transform, highway.transform_bias).relu()
        # Matrices may be multiplied in bfloat16; the sum is not computed in it.
        x_VS = torch.lerp(x_VS, new_VS.to(x_VS.dtype), carry_VS.to(x_VS.dtype))
    if encoder.word_embedding is not None and word_ids_V is not None:
        words_VW = F.embedding(word_ids_V, encoder.word_embedding)
        x_VS = torch.cat([words_VW, x_VS], dim=1)
    if weights.projection is None:
        return x_VS
    return linear(x_VS, weights.projection, encoder.projection_bias)


def _char_features(encoder: CharCnnEncoder, weights: Weights, ids_VC: Tensor) -> Tensor:
    """Return the maximum of every filter over all positions, activated, (V, S). On a
    CPU some words are read at a time, as far as the longest of them."""
    on_cpu = weights.key.device == "cpu"
    widths = [weight.shape[2] for weight in encoder.conv_weights]
    W, C, S = max(widths), ids_VC.shape[1], weights.filters.shape[1]
    at_once = WORDS_AT_ONCE if on_cpu else max(1, OUTPUTS_ON_GPU // (S * (C + W)))
    largest = []
    for some_VC in ids_VC.split(at_once):
        # One window of padding is enough.
        n = W + (int(lengths(some_VC)[-1]) if on_cpu else C)
        windows_VLW = F.pad(some_VC, (0, n - C)).unfold(1, W, 1)
        chars = F.embedding(windows_VLW, encoder.char_embedding).flatten(2)
        found = linear(chars.flatten(0, 1), weights.filters)
        found_VLS = found.unflatten(0, chars.shape[:2])
        if n > C:  # the last window of each filter ends where the word's ids do
            last = [w.new_full((len(w),), C - w.shape[2]) for w in encoder.conv_weights]
            starts = torch.arange(C - W, n - W + 1, device=ids_VC.device)
            beyond = starts[:, None] > torch.cat(last)
            found_VLS[:, C - W :].masked_fill_(beyond, -torch.inf)
        largest.append(_Largest.apply(found_VLS))
    # The bias is added after the maximum: C times fewer sums.
    bias_S = torch.cat(list(encoder.conv_biases))
    return encoder.activation(torch.cat(largest) + bias_S)


class _Largest(torch.autograd.Function):
    """The maximum over positions, with the gradient of `Tensor.amax`: equal positions
    share it. Its own comparisons take longer: 5 % of a step of training with 2,048
    filters (docs/kernels.md)."""

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
