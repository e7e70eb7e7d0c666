"""The road from sentences to layers: which sentences are computed together, how a batch
is packed, and how its layers come back.

    sentences -> in_batches -> PackedBatch -> BiLM.forward -> layers (L+1, N, D)

`BiLM.encode` and the spaCy pipeline, in prediction and in training, differ in what they
do with the layers of a batch, and in nothing else.

Shapes: B sentences, T steps, N packed positions, V distinct words, L+1 layers, D width.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..errors import Errors, Warnings
from ..machine import default_settings, safe_from_forks, to_device, to_host
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
    _check_list(sentences)
    for sentence in sentences:
        _check_list(sentence)
        for token in sentence:
            if not isinstance(token, str):
                found = f"a {type(token).__name__} token"
                raise Errors.EL025(found=found)


def _check_list(found: object) -> None:
    if isinstance(found, str) or not isinstance(found, Sequence):
        raise Errors.EL025(found=type(found).__name__)


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


def in_batches(
    sentences: Sequence[Sequence[str]],
    batch_tokens: int,
    compute: Callable[[Sequence[int], PackedBatch], T],
) -> Iterator[tuple[Sequence[int], T]]:
    """Yield the indices of the sentences of each batch, and the result of `compute`.

    Args:
        sentences: Each a list of tokens.
        batch_tokens: As in `batch_by_tokens`.
        compute: Takes the indices of some sentences, and these sentences packed.

    Raises:
        MemoryError: [EL080] A GPU's memory does not hold a sentence.
    """

    def compute_some(some: Sequence[int]) -> T:
        return compute(some, pack([sentences[b] for b in some]))

    groups = batch_by_tokens(sentences, batch_tokens)
    return compute_what_fits(groups, compute_some, lambda b: len(sentences[b]) + 2)


def batch_by_tokens(
    sentences: Sequence[Sequence[str]], batch_tokens: int
) -> Iterator[list[int]]:
    """Yield the indices of sentences in groups of at most batch_tokens tokens, with
    boundaries; a longer sentence is a group of its own. Longest first, so that memory
    is taken once and a group's sentences run together to the end."""
    sizes = [len(sentence) + 2 for sentence in sentences]
    group: list[int] = []
    total = 0
    for b in sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True):
        if group and total + sizes[b] > batch_tokens:
            yield group
            group, total = [], 0
        group.append(b)
        total += sizes[b]
    if group:
        yield group


def compute_what_fits(
    groups: Iterable[Sequence[S]],
    compute: Callable[[Sequence[S]], T],
    length: Callable[[S], int],
) -> Iterator[tuple[Sequence[S], T]]:
    """Yield groups of sentences or Docs in order, each with its result. Where a GPU's
    memory does not hold a group, its halves are computed one after the other.

    Args:
        groups: Sentences or Docs that are computed together.
        compute: Computes a group.
        length: The number of tokens of a sentence or Doc.

    Raises:
        MemoryError: [EL080] A sentence or Doc alone does not fit.
    """
    for group in groups:
        waiting = [group]
        while waiting:
            some = waiting.pop()
            try:
                result = compute(some)
            except (torch.cuda.OutOfMemoryError, MemoryError) as error:
                name = type(error).__name__  # CuPy's has torch's name
                if name != "OutOfMemoryError":
                    raise
                tokens = sum(map(length, some))
                if len(some) == 1:
                    values = {"tokens": tokens, "fits": max(1, tokens // 2)}
                    raise Errors.EL080(**values) from error
            else:
                yield some, result
                del result  # before the next is computed
                continue
            # Out of the handler, which holds what was computed so far.
            _free_cached_memory()
            warnings.warn(Warnings.ELW06(tokens=tokens, fits=tokens // 2), stacklevel=2)
            middle = len(some) // 2
            waiting += [some[middle:], some[:middle]]


def _free_cached_memory() -> None:
    """Give back the memory of a GPU that CuPy and torch keep for later."""
    with suppress(KeyError, AttributeError):  # CuPy's pool; Thinc's is torch's
        sys.modules["cupy"].cuda.get_allocator().__self__.free_all_blocks()
    torch.cuda.empty_cache()


def check_finite(
    layers_LND: Tensor,
    sentences: Sequence[Sequence[str]],
    rows: Sequence[np.ndarray],
) -> Callable[[], None]:
    """Return a check that raises ValueError [EL078], and names the first sentence whose
    vectors are not finite. On a CPU the check has run already; on a GPU calling it
    waits for the work that was queued before.

    Args:
        layers_LND: Layers of some sentences.
        sentences: Each a list of tokens.
        rows: The rows of each sentence's tokens.
    """
    if layers_LND.device.type == "cpu":
        _check_numbers(layers_LND.detach().float().numpy(), sentences, rows)
        return lambda: None
    # One sum in the order of the memory, which NaN and infinity survive.
    sum_of_all = to_host(layers_LND.transpose(0, 1).sum(dtype=torch.float32))

    def check() -> None:
        if not sum_of_all().isfinite():
            _check_numbers(layers_LND.float().cpu().numpy(), sentences, rows)

    return check


def _check_numbers(
    layers_LND: np.ndarray, sentences: Sequence[Sequence[str]], rows: Sequence[Any]
) -> None:
    with np.errstate(all="ignore"):  # NaN and infinity survive a sum
        total = layers_LND.sum(dtype=np.float32)
    if np.isfinite(total):
        return
    for sentence, rows_T in zip(sentences, rows):
        if not np.isfinite(layers_LND[:, rows_T]).all():
            raise Errors.EL078(sentence=repr(" ".join(sentence[:12])[:200]))


def on_the_host(
    layers_LND: Tensor, sentences: Sequence[Sequence[str]], rows: Sequence[np.ndarray]
) -> Iterable[np.ndarray]:
    """Return the layers of each sentence, float32 (L+1, T, D), in memory of the host.

    The layers of a sentence are copied when they are asked for: those of a batch are
    larger than a CPU's cache.

    Args:
        layers_LND: Layers of a batch.
        sentences: Each a list of tokens.
        rows: The rows of each sentence's tokens.

    Raises:
        ValueError: [EL078] As `check_finite`.
    """
    device = layers_LND.device
    if device.type != "cpu":
        ends = np.cumsum([len(rows_T) for rows_T in rows])
        with default_settings(), safe_from_forks():
            all_rows = to_device(np.concatenate(rows), device)
            layers_LND = to_host(layers_LND.index_select(1, all_rows).float())()
        rows = np.split(np.arange(ends[-1]), ends[:-1])
    return _each(layers_LND.detach().float().numpy(), sentences, rows)


def _each(
    layers_LND: np.ndarray,
    sentences: Sequence[Sequence[str]],
    rows: Sequence[np.ndarray],
) -> Iterator[np.ndarray]:
    """Yield the layers of each sentence. NumPy copies them: threads of torch would then
    look for more work for a while, and the library's threads wait for them."""
    for sentence, rows_T in zip(sentences, rows):
        found = np.take(layers_LND, rows_T, axis=1)
        _check_numbers(found, [sentence], [slice(None)])
        yield found
