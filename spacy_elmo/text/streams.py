"""A corpus as continuous streams, read a few steps at a time in both directions.

Shapes: B streams, T unroll steps, N = T * B time-major positions, P of them predict
something, V distinct words of a batch, C characters.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from ..bilm.config import BiLMConfig
from ..errors import Errors
from .corpus import BOS_ID, EOS_ID, MAX_CHARACTERS, Corpus, RunningText

# Steps of a stream that are read from the text at once.
STEPS_AT_ONCE = 1024

A = TypeVar("A", bound=Sized)
B = TypeVar("B", bound=Sized)
T = TypeVar("T")


class CharacterModel(Protocol):
    """What streams ask of a biLM: the character ids that it reads words by."""

    config: BiLMConfig

    def character_ids(self, words: Sequence[str]) -> np.ndarray:
        """Return the ids of words, (V, C)."""

    def trim(self, ids_VC: np.ndarray) -> np.ndarray:
        """Return the ids without the padding that changes no vector."""


@dataclass(frozen=True)
class Direction(Generic[A]):
    """One direction of a batch: which of its distinct words is read at each position,
    the positions that predict something, and the numbers of the words they predict."""

    word_N: A
    position_P: A
    target_P: A

    def map(self, convert: Callable[[A], B]) -> "Direction[B]":
        """Return the direction with each of its arrays converted."""
        return Direction(
            convert(self.word_N), convert(self.position_P), convert(self.target_P)
        )


@dataclass(frozen=True)
class Batch(Generic[A]):
    """T steps of B streams, and the character ids of their distinct words, as NumPy
    arrays or, after `map`, as others."""

    characters_VC: A
    forward: Direction[A]
    backward: Direction[A]
    n_streams: int

    def map(self, convert: Callable[[A], B]) -> "Batch[B]":
        """Return the batch with each of its arrays converted."""
        return Batch(
            convert(self.characters_VC),
            self.forward.map(convert),
            self.backward.map(convert),
            self.n_streams,
        )

    @property
    def batch_sizes(self) -> list[int]:
        """Number of streams that are read at each step."""
        return [self.n_streams] * (len(self.forward.word_N) // self.n_streams)

    @property
    def n_targets(self) -> int:
        """Number of predictions of both directions."""
        return len(self.forward.target_P) + len(self.backward.target_P)


class Streams:
    """Some of the B streams that a corpus is cut into.

    Every target is predicted once; the streams' ends are filled up with steps that
    predict nothing. What follows a sentence's end is its successor's first boundary,
    always: it is read but not predicted, so it flatters no perplexity.

    Args:
        model: What the character ids are made for.
        batch_size: B.
        unroll_steps: T.
        rows: The streams to read, of all B; None for all.

    Raises:
        ValueError: [EL035] The text has fewer words than streams.
    """

    def __init__(
        self,
        corpus: Corpus,
        model: CharacterModel,
        batch_size: int,
        unroll_steps: int,
        rows: range | None = None,
    ) -> None:
        n_targets = len(corpus.forward) - 1
        if n_targets < batch_size:
            raise ValueError(
                Errors.EL035.format(
                    tokens=len(corpus.forward), batch=batch_size, fits=n_targets
                )
            )
        self.unroll_steps = unroll_steps
        self.rows = range(batch_size) if rows is None else rows
        self.length = -(-n_targets // batch_size)
        self._n_targets = n_targets
        self._target_V = np.asarray(corpus.target_V)
        self._characters_VC = character_table(corpus, model)
        self._trim = model.trim
        self._texts = ((corpus.forward, EOS_ID), (corpus.backward, BOS_ID))
        self._windows_at_once = max(1, STEPS_AT_ONCE // unroll_steps)
        self._read_ahead: tuple[int, list[tuple[np.ndarray, np.ndarray]]] = (-1, [])

    def __len__(self) -> int:
        """Number of batches of the text."""
        return math.ceil(self.length / self.unroll_steps)

    def batch(self, number: int) -> Batch[np.ndarray]:
        """Return the T steps with a number, from 0."""
        group, within = divmod(number, self._windows_at_once)
        if self._read_ahead[0] != group:
            steps = self._windows_at_once * self.unroll_steps
            read = [self._read(*text, group * steps, steps) for text in self._texts]
            self._read_ahead = (group, read)
        window = slice(within * self.unroll_steps, (within + 1) * self.unroll_steps)
        windows = [
            (words_TB[window].reshape(-1), targets_TB[window].reshape(-1))
            for words_TB, targets_TB in self._read_ahead[1]
        ]
        distinct, where = np.unique(
            np.concatenate([words_N for words_N, _ in windows]), return_inverse=True
        )
        where = where.reshape(2, -1)  # both directions have as many steps
        directions = []
        for word_N, (_, target_N) in zip(where, windows):
            position_P = np.flatnonzero(target_N >= 0)
            target_P = target_N[position_P].astype(np.int64)
            directions.append(
                Direction(np.ascontiguousarray(word_N), position_P, target_P)
            )
        characters = self._characters_VC[distinct].astype(np.int64)
        forward, backward = directions
        return Batch(self._trim(characters), forward, backward, len(self.rows))

    def _read(
        self, text: RunningText, sentence_end: int, first: int, steps: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return words and targets of some steps, each (steps, B); -1 for no target."""
        steps = min(steps, self.length - first)
        words_TB = np.full((steps, len(self.rows)), BOS_ID, dtype=np.int32)
        targets_TB = np.full((steps, len(self.rows)), -1, dtype=np.int32)
        for column, row in enumerate(self.rows):
            start = row * self.length + first
            stop = min(start + steps, self._n_targets)
            if stop <= start:
                continue
            ids = text.read(start, stop + 1)
            n = stop - start
            words_TB[:n, column] = ids[:-1]
            target = self._target_V[ids[1:]]
            target[ids[:-1] == sentence_end] = -1
            targets_TB[:n, column] = target
        return words_TB, targets_TB


def character_table(corpus: Corpus, model: CharacterModel) -> np.ndarray:
    """Return the character ids of all words of a corpus, (V, C): those that are stored,
    where the model reads the same."""
    config = model.config
    if config.characters == "bytes" and config.max_characters == MAX_CHARACTERS:
        return corpus.characters_VC
    return model.character_ids(corpus.words)


def read_ahead(make: Callable[[int], T], numbers: Iterable[int]) -> Iterator[T]:
    """Yield make(n) of every number, each made while the one before is in use."""
    with ThreadPoolExecutor(1) as pool:
        following: Future[T] | None = None
        for number in numbers:
            made, following = following, pool.submit(make, number)
            if made is not None:
                yield made.result()
        if following is not None:
            yield following.result()
