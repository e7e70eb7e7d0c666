"""A corpus as continuous streams, read a few steps at a time in both directions.

Shapes: B streams, T unroll steps, N = T * B time-major positions, P of them with a
target, V distinct words of a batch, C characters.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from ..errors import Errors
from .corpus import BOS_ID, EOS_ID, MAX_CHARACTERS, Corpus

if TYPE_CHECKING:  # it is given here, and needs torch
    from ..bilm import BiLM

STEPS_AT_ONCE = 1024  # steps of a stream that are read from the text at once
# A GPU can't be asked for the lengths of words without waiting for it. So it gets the
# distinct words of a batch in three parts by length: the first 60 %, the next 35 %, and
# the few longest, to which all others would have to be padded (docs/kernels.md).
PARTS = (0.6, 0.95)

A = TypeVar("A", bound=Sized)
B = TypeVar("B", bound=Sized)
T = TypeVar("T")
TokenReader = Callable[[np.ndarray], tuple[np.ndarray, ...]]


class Direction(NamedTuple, Generic[A]):
    """One direction of a batch.

    Attributes:
        word_N: The distinct word of the batch at each position.
        position_P: The positions that have a target.
        target_P: The targets, as numbers in the vocabulary.
    """

    word_N: A
    position_P: A
    target_P: A

    def map(self, convert: Callable[[A], B]) -> "Direction[B]":
        """Return the direction with each of its arrays converted."""
        return Direction(*map(convert, self))


@dataclass(frozen=True)
class Batch(Generic[A]):
    """T steps of B streams, in NumPy arrays or, after `map`, in other arrays.

    Attributes:
        token_ids: The arguments of the token encoder for the distinct words: character
            ids (V, C), word ids (V,), or both.
        forward: The forward direction.
        backward: The backward direction.
        n_streams: Number of streams, B.
        n_parts: Number of arrays that the character ids are in.
    """

    token_ids: tuple[A, ...]
    forward: Direction[A]
    backward: Direction[A]
    n_streams: int
    n_parts: int = 1

    def map(self, convert: Callable[[A], B]) -> "Batch[B]":
        """Return the batch with each of its arrays converted."""
        directions = self.forward.map(convert), self.backward.map(convert)
        token_ids = tuple(map(convert, self.token_ids))
        return Batch(token_ids, *directions, self.n_streams, self.n_parts)

    @property
    def batch_sizes(self) -> list[int]:
        """Number of streams at each step."""
        return [self.n_streams] * (len(self.forward.word_N) // self.n_streams)


class Streams:
    """Some of the B streams that a corpus is cut into.

    Every target is predicted once. Steps without a target are appended to the streams
    until they are equally long. The end of a sentence is always followed by the begin
    of the next. This begin is read but is no target, so it flatters no perplexity.

    Args:
        corpus: The corpus.
        bilm: The model that reads the words. Its word embedding, if it has one, is for
            the vocabulary of the corpus.
        batch_size: Number of streams, B.
        unroll_steps: Number of steps of a batch, T.
        rows: The streams to read; None for all.
        ids: The `token_reader` of corpus and model, if several streams share it.

    Raises:
        ValueError: [EL035] The text has fewer words than streams.
    """

    def __init__(
        self,
        corpus: Corpus,
        bilm: "BiLM",
        batch_size: int,
        unroll_steps: int,
        rows: range | None = None,
        ids: TokenReader | None = None,
    ) -> None:
        n_words = len(corpus.forward)
        if n_words - 1 < batch_size:
            raise Errors.EL035(tokens=n_words, batch=batch_size, fits=n_words - 1)
        self.corpus, self.unroll_steps = corpus, unroll_steps
        self.rows = range(batch_size) if rows is None else rows
        self.length = math.ceil((n_words - 1) / batch_size)
        self._ids = ids or token_reader(corpus, bilm)
        self._length_V: np.ndarray | None = None
        if bilm.device.type == "cuda" and bilm.config.has_characters:
            self._length_V = np.fromiter(map(len, corpus.words), dtype=np.int32)
        self._batches_at_once = max(1, STEPS_AT_ONCE // unroll_steps)
        self._group = -1
        self._words_and_targets: np.ndarray = np.empty((2, 2, 0, 0), dtype=np.int32)

    def __len__(self) -> int:
        """Return the number of batches of the text."""
        return math.ceil(self.length / self.unroll_steps)

    def batch(self, number: int) -> Batch[np.ndarray]:
        """Return the batch with a number, from 0."""
        group, within = divmod(number, self._batches_at_once)
        if group != self._group:
            steps = self._batches_at_once * self.unroll_steps
            self._words_and_targets = self._read(group * steps, steps)
            self._group = group
        window = slice(within * self.unroll_steps, (within + 1) * self.unroll_steps)
        words_2N, targets_2N = (
            both[:, window].reshape(2, -1) for both in self._words_and_targets
        )
        distinct_V, where = np.unique(words_2N, return_inverse=True)
        where, token_ids, n_parts = self._read_words(distinct_V, where)
        directions = []
        for word_N, target_N in zip(where.reshape(2, -1), targets_2N):
            position_P = np.flatnonzero(target_N >= 0)
            target_P = target_N[position_P].astype(np.int64)
            directions.append(Direction(word_N, position_P, target_P))
        forward, backward = directions
        return Batch(token_ids, forward, backward, len(self.rows), n_parts)

    def _read_words(
        self, distinct_V: np.ndarray, where: np.ndarray
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...], int]:
        """Prepare the distinct words of a batch for the token encoder.

        Args:
            distinct_V: The distinct words.
            where: Row of distinct_V at each position.

        Returns:
            The row at each position, in the order of the ids; the ids of the words; the
            number of arrays that the character ids are in.
        """
        if self._length_V is None:
            return where, self._ids(distinct_V), 1
        order_V = np.argsort(self._length_V[distinct_V], kind="stable")
        rank_V = np.empty_like(order_V)
        rank_V[order_V] = np.arange(len(order_V))
        cuts = [int(share * len(order_V)) for share in PARTS]
        parts = [p for p in np.split(distinct_V[order_V], cuts) if len(p)]
        characters, *words = zip(*map(self._ids, parts))
        token_ids = *characters, *(np.concatenate(each) for each in words)
        return rank_V[where], token_ids, len(characters)

    def _read(self, first: int, steps: int) -> np.ndarray:
        """Return words and targets of both directions, (2, 2, steps, B). -1 stands for
        no target."""
        steps = min(steps, self.length - first)
        read = np.empty((2, 2, steps, len(self.rows)), dtype=np.int32)
        read[0], read[1] = BOS_ID, -1
        texts = ((self.corpus.forward, EOS_ID), (self.corpus.backward, BOS_ID))
        for direction, (text, sentence_end) in enumerate(texts):
            for column, row in enumerate(self.rows):
                start = row * self.length + first
                ids = text.read(start, min(start + steps, len(text) - 1) + 1)
                n = max(0, len(ids) - 1)
                target = self.corpus.target_V[ids[1:]]
                target[ids[:-1] == sentence_end] = -1
                read[0, direction, :n, column] = ids[:-1]
                read[1, direction, :n, column] = target
        return read


def token_reader(corpus: Corpus, bilm: "BiLM") -> TokenReader:
    """Return a function from words of a corpus to the ids (int64) that the token
    encoder of a biLM reads: character ids (V, C), numbers in the vocabulary (V,), or
    both."""
    config = bilm.config
    all_VC = character_table(corpus, bilm) if config.has_characters else None

    def read(words_V: np.ndarray) -> tuple[np.ndarray, ...]:
        found = []
        if all_VC is not None:
            found.append(bilm.trim(all_VC[words_V].astype(np.int64)))
        if config.n_words:
            found.append(corpus.target_V[words_V].astype(np.int64))
        return tuple(found)

    return read


def character_table(corpus: Corpus, bilm: "BiLM") -> np.ndarray:
    """Return the character ids of all words of a corpus, (V, C). They are stored with
    the corpus, for biLMs that read 50 bytes of a word."""
    config = bilm.config
    if config.characters == "bytes" and config.max_characters == MAX_CHARACTERS:
        return corpus.characters_VC
    return bilm.character_ids(corpus.words).astype(np.int32)


def read_ahead(make: Callable[[int], T], numbers: Iterable[int]) -> Iterator[T]:
    """Yield make(n) for every number. A thread computes the next result while the last
    one is in use."""
    with ThreadPoolExecutor(1) as pool:
        yield from in_order(pool, make, zip(numbers), 1)


def in_order(
    pool: Executor, make: Callable[..., T], tasks: Iterable[tuple[Any, ...]], ahead: int
) -> Iterator[T]:
    """Yield make(*task) for every task, in order. A pool computes up to `ahead` further
    results meanwhile."""
    running: deque[Future[T]] = deque()
    for task in tasks:
        running.append(pool.submit(make, *task))
        if len(running) > ahead:
            yield running.popleft().result()
    yield from (future.result() for future in running)
