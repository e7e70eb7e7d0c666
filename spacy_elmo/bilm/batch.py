"""Sentences -> batches: which are computed together, and how a batch is packed.

Shapes: B sentences, T steps, N packed positions, V distinct words.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from ..errors import Errors, Warnings
from .transfer import to_device, to_host
from .words import BOS, EOS

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class PackedBatch:
    """Sentences with their boundaries, packed time-major, longest first (lstm.py)."""

    words: list[str]  # the V distinct words, which are encoded once
    word_N: np.ndarray  # the word at each packed position
    # The position that mirrors each one in its sentence. Its own inverse: it turns the
    # order of one direction into that of the other.
    reversed_N: np.ndarray
    batch_sizes: list[int]  # how many sentences are longer than t, for each step t
    # Packed positions of each sentence, in the order given, without its boundaries
    positions: list[np.ndarray]
    order_B: np.ndarray  # the sentence that each row of the packed batch holds


def check_sentences(sentences: Sequence[Sequence[str]]) -> None:
    """Raise ValueError [EL025] if these are not lists of tokens."""
    for sentence in [sentences, *sentences]:
        if isinstance(sentence, str) or not isinstance(sentence, Sequence):
            raise ValueError(Errors.EL025.format(found=type(sentence).__name__))
    for sentence in sentences:
        for token in sentence:
            if not isinstance(token, str):
                found = f"a {type(token).__name__} token"
                raise ValueError(Errors.EL025.format(found=found))


def pack(sentences: Sequence[Sequence[str]]) -> PackedBatch:
    """Return sentences packed, each as <S> tokens </S>; an empty one is <S> </S>."""
    lengths_B = np.array([len(sentence) + 2 for sentence in sentences])
    order_B = np.argsort(-lengths_B, kind="stable")
    sorted_B = lengths_B[order_B]
    steps_T = np.arange(sorted_B[0])
    batch_sizes_T = len(sorted_B) - np.searchsorted(sorted_B[::-1], steps_T, "right")
    offsets_T = np.cumsum(batch_sizes_T) - batch_sizes_T  # rows before each step

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


def check_finite(
    layers_LND: Tensor,
    sentences: Sequence[Sequence[str]],
    rows: Sequence[np.ndarray],
) -> Callable[[], None]:
    """Return what raises ValueError [EL078] if a sentence, whose tokens have these
    rows, has vectors that are not finite. A CPU looks at once; a GPU is waited for when
    that is called, until it has computed what it was given up to now."""
    # One sum in the order of the memory, which NaN and infinity survive.
    sum_of_all = to_host(layers_LND.transpose(0, 1).sum(dtype=torch.float32))

    def check() -> None:
        if sum_of_all().isfinite():
            return
        finite_N = layers_LND.isfinite().all(dim=2).all(dim=0).cpu().numpy()
        for sentence, rows_T in zip(sentences, rows):
            if not finite_N[rows_T].all():
                words = repr(" ".join(sentence[:12])[:200])
                raise ValueError(Errors.EL078.format(sentence=words))

    if layers_LND.device.type == "cpu":
        check()
    return check


def on_the_host(layers_LND: Tensor, rows: Sequence[np.ndarray]) -> Iterable[np.ndarray]:
    """Return layers, float32 (L, T, D), of sentences whose tokens have these rows; on a
    CPU each is copied when it is asked for."""
    if layers_LND.device.type == "cpu":
        layers = layers_LND.float().numpy()
        return (np.ascontiguousarray(layers[:, rows_T]) for rows_T in rows)
    # Side by side before they are copied, all at once.
    rows_N = to_device(np.concatenate(rows), layers_LND.device)
    layers = to_host(layers_LND.index_select(1, rows_N).float())().numpy()
    ends = np.cumsum([len(rows_T) for rows_T in rows])[:-1]
    return [part.copy() for part in np.split(layers, ends, axis=1)]


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
    group: Sequence[S], compute: Callable[[Sequence[S]], T], length: Callable[[S], int]
) -> Iterator[tuple[Sequence[S], T]]:
    """Yield parts of a group of sentences or Docs, which have so many tokens each, in
    order, with what is computed for each part: the whole group or, where a GPU's memory
    does not hold that, two parts, and parts of these. Raises MemoryError [EL080] if not
    even one fits."""
    try:
        result = compute(group)
    except (torch.cuda.OutOfMemoryError, MemoryError) as error:
        if type(error).__name__ != "OutOfMemoryError":  # CuPy's has torch's name
            raise
        tokens = sum(map(length, group))
        if len(group) == 1:
            message = Errors.EL080.format(tokens=tokens, fits=max(1, tokens // 2))
            raise MemoryError(message) from error
    else:
        yield group, result
        return
    # Out of the handler, which holds what was computed so far.
    torch.cuda.empty_cache()
    if "cupy" in sys.modules:  # which keeps memory for itself
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()
    warnings.warn(Warnings.ELW06.format(tokens=tokens, fits=tokens // 2), stacklevel=2)
    middle = len(group) // 2
    yield from compute_what_fits(group[:middle], compute, length)
    yield from compute_what_fits(group[middle:], compute, length)
