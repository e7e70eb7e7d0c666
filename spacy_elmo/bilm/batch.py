"""Sentences -> what a biLM reads: distinct words, and where they stand, packed.

The char-CNN runs once for each distinct word of a batch. Positions are packed
time-major, longest sentence first (see lstm.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .words import BOS, EOS


@dataclass(frozen=True)
class PackedBatch:
    """Sentences with their boundaries, packed.

    words: the V distinct words of the batch.
    word_N: which word stands at each packed position.
    reversed_N: for each packed position, the position that mirrors it in its sentence.
        Its own inverse; it turns a forward layout into a backward one and back.
    batch_sizes: number of sentences still running at each step.
    positions: for every sentence, in the order given, its packed positions without the
        boundaries.
    order_B: order_B[row] is the sentence that row of the packed batch holds.
    """

    words: list[str]
    word_N: np.ndarray
    reversed_N: np.ndarray
    batch_sizes: list[int]
    positions: list[np.ndarray]
    order_B: np.ndarray


def pack(sentences: Sequence[Sequence[str]]) -> PackedBatch:
    """Pack sentences, each as <S> tokens </S>; an empty one is <S> </S>."""
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
    """Indices of sentences in groups of at most batch_tokens tokens, boundaries
    counted; a longer sentence is a group of its own. Longest first, so that memory is
    taken once and a group's sentences run together to the end."""
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
