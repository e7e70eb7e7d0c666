"""Sentences -> batches: which are computed together, and how a batch is packed.

Shapes: B sentences, N packed positions, V distinct words.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from ..errors import Errors, Warnings
from .words import BOS, EOS

T = TypeVar("T")


@dataclass(frozen=True)
class PackedBatch:
    """Sentences with their boundaries, packed time-major, the longest first (lstm.py).

    Attributes:
        words: The V distinct words of the batch, which are encoded once.
        word_N: The word at each packed position.
        reversed_N: The position that mirrors each one in its sentence. Its own inverse:
            it turns the order of one direction into that of the other.
        batch_sizes: Number of sentences that are longer than t, for each step t.
        positions: The packed positions of each sentence, in the order given, without
            its boundaries.
        order_B: The sentence that each row of the packed batch holds.
    """

    words: list[str]
    word_N: np.ndarray
    reversed_N: np.ndarray
    batch_sizes: list[int]
    positions: list[np.ndarray]
    order_B: np.ndarray


def pack(sentences: Sequence[Sequence[str]]) -> PackedBatch:
    """Return sentences packed, each as <S> tokens </S>; an empty one is <S> </S>."""
    lengths_B = np.array([len(sentence) + 2 for sentence in sentences])
    order_B = np.argsort(-lengths_B, kind="stable")
    sorted_B = lengths_B[order_B]
    # batch_sizes[t]: sentences longer than t; offsets[t]: rows before step t
    batch_sizes_T = len(sorted_B) - np.searchsorted(
        sorted_B[::-1], np.arange(sorted_B[0]), side="right"
    )
    offsets_T = np.concatenate([[0], np.cumsum(batch_sizes_T)[:-1]])

    index: dict[str, int] = {}
    word_N = np.empty(int(lengths_B.sum()), dtype=np.int64)
    reversed_N = np.empty_like(word_N)
    positions: list[np.ndarray] = [np.empty(0)] * len(sentences)
    for row, b in enumerate(order_B):
        at_T = offsets_T[: lengths_B[b]] + row
        words = [BOS, *sentences[b], EOS]
        word_N[at_T] = [index.setdefault(word, len(index)) for word in words]
        reversed_N[at_T] = at_T[::-1]
        positions[b] = at_T[1:-1]
    return PackedBatch(
        list(index), word_N, reversed_N, batch_sizes_T.tolist(), positions, order_B
    )


def batch_by_tokens(
    sentences: Sequence[Sequence[str]], batch_tokens: int
) -> Iterator[list[int]]:
    """Yield the indices of sentences in groups of at most batch_tokens tokens, with
    boundaries; a longer sentence is a group of its own. Longest first, so that memory
    is taken once and a group's sentences run together to the end."""
    group: list[int] = []
    tokens = 0
    for b in sorted(range(len(sentences)), key=lambda b: -len(sentences[b])):
        length = len(sentences[b]) + 2
        if group and tokens + length > batch_tokens:
            yield group
            group, tokens = [], 0
        group.append(b)
        tokens += length
    if group:
        yield group


def compute_what_fits(
    sentences: Sequence[Sequence[str]],
    group: Sequence[int],
    compute: Callable[[Sequence[int]], T],
) -> Iterator[tuple[Sequence[int], T]]:
    """Yield parts of a group of sentences, in order, with the result of each: the whole
    group or, where a GPU's memory does not hold that, two parts, and parts of these.

    Args:
        sentences: The sentences.
        group: The indices of some of them.
        compute: Computes the result of such indices.

    Raises:
        MemoryError: [EL080] Not even one sentence fits.
    """
    try:
        result = compute(group)
    except torch.cuda.OutOfMemoryError as error:
        tokens = sum(len(sentences[i]) + 2 for i in group)
        if len(group) == 1:
            message = Errors.EL080.format(tokens=tokens, fits=max(1, tokens // 2))
            raise MemoryError(message) from error
    else:
        yield group, result
        return
    # Out of the handler, which holds what was computed so far.
    torch.cuda.empty_cache()
    warnings.warn(Warnings.ELW06.format(tokens=tokens, fits=tokens // 2), stacklevel=2)
    middle = len(group) // 2
    yield from compute_what_fits(sentences, group[:middle], compute)
    yield from compute_what_fits(sentences, group[middle:], compute)
