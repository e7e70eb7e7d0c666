"""A corpus as continuous streams, read a few steps at a time in both directions.

Shapes: B streams, T unroll steps, N = T * B time-major positions, P of them predict
something, V distinct words of a batch, C characters.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..bilm.bilm import BiLM
from ..errors import Errors
from .corpus import BOS_ID, EOS_ID, Corpus, RunningText

# Steps of a stream that are read from the text at once.
STEPS_AT_ONCE = 1024


@dataclass(frozen=True)
class Reading:
    """One direction of a batch: which of its distinct words is read at each position,
    (N,), the positions that predict something, and what, each (P,)."""

    word_N: Tensor
    position_P: Tensor
    target_P: Tensor


@dataclass(frozen=True)
class Batch:
    """T steps of B streams. characters_VC: its distinct words, both directions'."""

    characters_VC: Tensor
    forward: Reading
    backward: Reading
    n_streams: int

    @property
    def n_targets(self) -> int:
        return len(self.forward.target_P) + len(self.backward.target_P)

    @property
    def target_P(self) -> Tensor:
        return torch.cat([self.forward.target_P, self.backward.target_P])

    def to(self, device: torch.device) -> "Batch":
        if device.type == "cpu":
            return self

        def move(tensor: Tensor) -> Tensor:
            return tensor.pin_memory().to(device, non_blocking=True)

        forward, backward = (
            Reading(move(r.word_N), move(r.position_P), move(r.target_P))
            for r in (self.forward, self.backward)
        )
        return Batch(move(self.characters_VC), forward, backward, self.n_streams)


class Streams:
    """Some of the B streams that a corpus is cut into.

    Every target is predicted once; the streams' ends are filled up with steps that
    predict nothing. What follows a sentence's end is its successor's first boundary,
    always: it is read but not predicted, so it flatters no perplexity.
    """

    def __init__(
        self,
        corpus: Corpus,
        bilm: BiLM,
        batch_size: int,
        unroll_steps: int,
        rows: range | None = None,
    ) -> None:
        """batch_size: B. rows: the streams to read, of these; all if None.
        Raises ValueError [EL035] if the text has too few words for the streams."""
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
        self._characters_VC = corpus.character_ids(bilm)
        self._trim = bilm.trim
        self._texts = ((corpus.forward, EOS_ID), (corpus.backward, BOS_ID))
        self._windows_at_once = max(1, STEPS_AT_ONCE // unroll_steps)
        self._read_ahead: tuple[int, list[tuple[np.ndarray, np.ndarray]]] = (-1, [])

    def __len__(self) -> int:
        """How many batches the text makes."""
        return -(-self.length // self.unroll_steps)

    def batch(self, number: int) -> Batch:
        """The number-th T steps."""
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
            directions.append(
                Reading(
                    torch.from_numpy(np.ascontiguousarray(word_N)),
                    torch.from_numpy(position_P),
                    torch.from_numpy(target_N[position_P].astype(np.int64)),
                )
            )
        characters = self._characters_VC[distinct].astype(np.int64)
        return Batch(
            torch.from_numpy(self._trim(characters)),
            directions[0],
            directions[1],
            len(self.rows),
        )

    def _read(
        self, text: RunningText, sentence_end: int, first: int, steps: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Words and targets of some steps, each (steps, B); -1 for no target."""
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


def read_ahead(
    make: Callable[[int], list[Batch]], numbers: Iterable[int]
) -> Iterator[list[Batch]]:
    """make(n) of every number, each made while the one before is in use."""
    with ThreadPoolExecutor(1) as pool:
        following: Future[list[Batch]] | None = None
        for number in numbers:
            made, following = following, pool.submit(make, number)
            if made is not None:
                yield made.result()
        if following is not None:
            yield following.result()
