"""Sentences -> numbered words and the continuous streams a biLM is trained on.

A corpus is one long run of <S> tokens </S> <S> tokens </S> ... Words are numbered by
frequency: the first ones are the vocabulary, everything beyond it is <UNK> when it has
to be predicted, but is still read by its characters.

Shapes: B streams, T unroll steps, N = T * B time-major positions.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..bilm.bilm import UNK
from ..bilm.characters import BOS, EOS
from ..errors import Errors

SPECIALS = (BOS, EOS, UNK)
BOS_ID, EOS_ID, UNK_ID = range(3)


@dataclass(frozen=True)
class Corpus:
    """words: every distinct word, the vocabulary first. ids: the running text (int32).
    n_vocab: size of the vocabulary."""

    words: list[str]
    ids: np.ndarray
    n_vocab: int

    @property
    def vocab(self) -> list[str]:
        return self.words[: self.n_vocab]

    @property
    def n_tokens(self) -> int:
        """Tokens of the text, boundaries not counted."""
        return int((self.ids != BOS_ID).sum() - (self.ids == EOS_ID).sum())

    @property
    def coverage(self) -> float:
        """Share of the tokens that the vocabulary has."""
        unknown = ((self.ids >= self.n_vocab) | (self.ids == UNK_ID)).sum()
        return 1 - int(unknown) / max(1, self.n_tokens)


def build_corpus(
    sentences: Iterable[Sequence[str]],
    *,
    vocab: Sequence[str] | None = None,
    vocab_size: int = 50_000,
    min_count: int = 1,
    max_tokens: int | None = None,
) -> Corpus:
    """Number the words of sentences.

    vocab: a vocabulary to keep; if None the words seen min_count times or more are
        taken, the vocab_size - 3 most frequent ones at most.
    max_tokens: stop after this many tokens.
    Raises ValueError [EL033] if there is no sentence.
    """
    index = {word: i for i, word in enumerate(vocab or SPECIALS)}
    n_given = len(index)
    ids = array("i")
    left = max_tokens if max_tokens is not None else float("inf")
    for sentence in sentences:
        ids.append(BOS_ID)
        # A mark of ours that stands in the text is no mark there.
        words_read = (UNK if word in (BOS, EOS) else word for word in sentence)
        ids.extend([index.setdefault(word, len(index)) for word in words_read])
        ids.append(EOS_ID)
        left -= len(sentence)
        if left <= 0:
            break
    if not ids:
        raise ValueError(Errors.EL033)
    words, numbered = list(index), np.array(ids, dtype=np.int32)
    if vocab is not None:
        return Corpus(words, numbered, n_given)
    counts = np.bincount(numbered, minlength=len(words))
    # By frequency; equal ones as they were first seen, so that the order is one.
    ranked = np.argsort(-counts[n_given:], kind="stable") + n_given
    rank = np.empty(len(words), dtype=np.int32)
    rank[:n_given] = np.arange(n_given)
    rank[ranked] = np.arange(n_given, len(words))
    frequent = int((counts[n_given:] >= min_count).sum())
    return Corpus(
        [*SPECIALS, *(words[i] for i in ranked)],
        rank[numbered],
        n_given + min(frequent, max(0, vocab_size - n_given)),
    )


def check_vocab(vocab: Sequence[str], where: object) -> None:
    """Raises ValueError [EL034] unless a vocabulary starts with the three marks, and
    [EL039] if a word stands in it twice."""
    if len(set(vocab)) != len(vocab):
        raise ValueError(Errors.EL039.format(path=where))
    if tuple(vocab[:3]) != SPECIALS:
        raise ValueError(Errors.EL034.format(path=where, found=", ".join(vocab[:3])))


def reverse_sentences(ids: np.ndarray) -> np.ndarray:
    """The same text with each sentence back to front, boundaries included."""
    starts = np.flatnonzero(ids == BOS_ID)
    ends = np.flatnonzero(ids == EOS_ID)
    mirror = np.repeat(starts + ends, ends - starts + 1) - np.arange(len(ids))
    return ids[mirror]


@dataclass(frozen=True)
class Window:
    """T steps of B streams in one direction, time-major: words read and words to be
    predicted (-1 where nothing is), each (N,)."""

    input_N: np.ndarray
    target_N: np.ndarray


class Streams:
    """A corpus as B continuous streams, read T steps at a time in both directions.

    Every target is predicted once; the streams' ends are filled up with steps that
    predict nothing. What follows a sentence's end is its successor's first boundary,
    always: it is read but not predicted, so it flatters no perplexity.
    """

    def __init__(self, corpus: Corpus, batch_size: int, unroll_steps: int) -> None:
        """Raises ValueError [EL035] if the text has too few words for the streams."""
        self.batch_size, self.unroll_steps = batch_size, unroll_steps
        self.n_vocab = corpus.n_vocab
        n_targets = len(corpus.ids) - 1
        if n_targets < batch_size:
            raise ValueError(
                Errors.EL035.format(
                    tokens=len(corpus.ids), batch=batch_size, fits=n_targets
                )
            )
        self.length = -(-n_targets // batch_size)
        self._directions = [
            (self._cut(ids[:-1], BOS_ID), self._cut(self._targets(ids), -1))
            for ids in (corpus.ids, reverse_sentences(corpus.ids))
        ]

    def __len__(self) -> int:
        return -(-self.length // self.unroll_steps)

    def _targets(self, ids: np.ndarray) -> np.ndarray:
        read, target = ids[:-1], ids[1:].copy()
        target[target >= self.n_vocab] = UNK_ID
        last_of_sentence = (read == EOS_ID) if ids[0] == BOS_ID else (read == BOS_ID)
        target[last_of_sentence] = -1
        return target

    def _cut(self, values: np.ndarray, filler: int) -> np.ndarray:
        """RETURNS: (length, B), one column a stream."""
        filled = np.full(self.length * self.batch_size, filler, dtype=np.int64)
        filled[: len(values)] = values
        return np.ascontiguousarray(filled.reshape(self.batch_size, self.length).T)

    def window(self, number: int) -> tuple[Window, Window]:
        """The number-th T steps: forward and backward."""
        steps = slice(number * self.unroll_steps, (number + 1) * self.unroll_steps)
        forward, backward = (
            Window(read[steps].reshape(-1), target[steps].reshape(-1))
            for read, target in self._directions
        )
        return forward, backward

    def __iter__(self) -> Iterator[tuple[Window, Window]]:
        return (self.window(number) for number in range(len(self)))
