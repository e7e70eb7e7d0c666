"""Numbered words and running text: what a biLM is trained on.

A corpus is one long run of <S> tokens </S> <S> tokens </S> ... Words are numbered by
frequency: the first ones are the vocabulary, everything beyond it is <UNK> when it has
to be predicted, but is still read by its characters.

It lies in memory (`build_corpus`) or in mapped files (`shards.py`); nothing above here
knows which. Shapes: V distinct words, C characters.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..bilm.bilm import UNK, BiLM
from ..bilm.words import BOS, EOS, encode_words
from ..errors import Errors

SPECIALS = (BOS, EOS, UNK)
BOS_ID, EOS_ID, UNK_ID = range(3)
MAX_CHARACTERS = 50  # of the table of characters, as in the published models


class RunningText:
    """Word numbers of a long text, in pieces that may lie in mapped files."""

    def __init__(self, pieces: Sequence[np.ndarray], length: int | None = None) -> None:
        """length: leave out what follows this many words."""
        self.pieces = pieces
        self.starts = np.cumsum([0, *(len(piece) for piece in pieces)])
        self.length = int(self.starts[-1]) if length is None else length

    def __len__(self) -> int:
        return self.length

    def read(self, start: int, stop: int) -> np.ndarray:
        """Words start to stop, int32; fewer where the text ends."""
        stop = min(stop, self.length)
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        parts = []
        while start < stop:
            offset = int(self.starts[first])
            parts.append(self.pieces[first][start - offset : stop - offset])
            start = min(stop, int(self.starts[first + 1]))
            first += 1
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)


@dataclass(frozen=True)
class Corpus:
    """words: every distinct word. counts_V: how often each stands in the text.
    characters_VC: their bytes, as `encode_words` makes them. vocab: the words that can
    be predicted. target_V: each word's number among them, <UNK> if it is not one.
    forward, backward: the running text, and the same with each sentence back to front,
    boundaries included."""

    words: list[str]
    counts_V: np.ndarray
    characters_VC: np.ndarray
    vocab: list[str]
    target_V: np.ndarray
    forward: RunningText
    backward: RunningText

    def limit_vocab(self, size: int, min_count: int = 1) -> "Corpus":
        """Predict the size most frequent words at most (marks counted), each seen
        min_count times or more."""
        frequent = int((self.counts_V[len(SPECIALS) :] >= min_count).sum())
        n_vocab = len(SPECIALS) + min(frequent, max(0, size - len(SPECIALS)))
        target_V = np.arange(len(self.words), dtype=np.int32)
        target_V[n_vocab:] = UNK_ID
        return replace(self, vocab=self.words[:n_vocab], target_V=target_V)

    def with_vocab(self, vocab: Sequence[str]) -> "Corpus":
        """The same text, to be predicted in a given vocabulary."""
        index = {word: i for i, word in enumerate(vocab)}
        target_V = np.array([index.get(w, UNK_ID) for w in self.words], dtype=np.int32)
        return replace(self, vocab=list(vocab), target_V=target_V)

    def first(self, max_tokens: int | None) -> "Corpus":
        """The sentences that its first max_tokens tokens stand in."""
        if max_tokens is None or max_tokens >= self.n_tokens:
            return self
        tokens = position = 0
        while True:
            ids = self.forward.read(position, position + (1 << 20))
            seen = tokens + np.cumsum((ids != BOS_ID) & (ids != EOS_ID))
            ends = np.flatnonzero((ids == EOS_ID) & (seen >= max_tokens))
            if len(ends) or not len(ids):
                break
            tokens, position = int(seen[-1]), position + len(ids)
        stop = position + (int(ends[0]) + 1 if len(ends) else 0)
        counts_V = np.zeros_like(self.counts_V)
        for start in range(0, stop, 1 << 20):
            ids = self.forward.read(start, min(stop, start + (1 << 20)))
            counts_V += np.bincount(ids, minlength=len(counts_V))
        return replace(
            self,
            counts_V=counts_V,
            forward=RunningText(self.forward.pieces, stop),
            backward=RunningText(self.backward.pieces, stop),
        )

    def character_ids(self, bilm: BiLM) -> np.ndarray:
        """(V, C) of a biLM: the table, where it is made as the biLM reads."""
        config = bilm.config
        if config.characters == "bytes" and config.max_characters == MAX_CHARACTERS:
            return self.characters_VC
        return bilm.character_ids(self.words)

    @cached_property
    def n_tokens(self) -> int:
        """Tokens of the text, boundaries not counted."""
        return int(self.counts_V.sum() - self.counts_V[[BOS_ID, EOS_ID]].sum())

    @property
    def n_known(self) -> int:
        """Tokens of the text that the vocabulary has."""
        known_V = self.target_V != UNK_ID
        known_V[[BOS_ID, EOS_ID]] = False
        return int(self.counts_V[known_V].sum())

    @property
    def coverage(self) -> float:
        """Share of the tokens that the vocabulary has."""
        return self.n_known / max(1, self.n_tokens)


def build_corpus(
    sentences: Iterable[Sequence[str]],
    *,
    vocab: Sequence[str] | None = None,
    vocab_size: int = 50_000,
    min_count: int = 1,
    max_tokens: int | None = None,
) -> Corpus:
    """A corpus in memory.

    vocab: the vocabulary to predict in; if None the words seen min_count times or more
        are, the vocab_size - 3 most frequent ones at most.
    max_tokens: stop after this many tokens.
    Raises ValueError [EL033] if there is no sentence.
    """
    words, ids = number_words(sentences, max_tokens)
    if not len(ids):
        raise ValueError(Errors.EL033)
    words, rank = by_frequency(words, counts := np.bincount(ids, minlength=len(words)))
    ids = rank[ids]
    counts_V = np.empty_like(counts)
    counts_V[rank] = counts
    corpus = Corpus(
        words=words,
        counts_V=counts_V,
        characters_VC=encode_words(words, MAX_CHARACTERS).astype(np.uint16),
        vocab=words,
        target_V=np.arange(len(words), dtype=np.int32),
        forward=RunningText([ids]),
        backward=RunningText([reverse_sentences(ids)]),
    )
    if vocab is not None:
        return corpus.with_vocab(vocab)
    return corpus.limit_vocab(vocab_size, min_count)


def number_words(
    sentences: Iterable[Sequence[str]], max_tokens: int | None = None
) -> tuple[list[str], np.ndarray]:
    """Distinct words as they come, the marks first, and the running text in their
    numbers."""
    index = {word: i for i, word in enumerate(SPECIALS)}
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
    return list(index), np.array(ids, dtype=np.int32)


def by_frequency(words: list[str], counts: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Words, the marks first, then by falling count; equal ones stay in their order, so
    that there is but one. RETURNS: them, and the new number of each old one (int32)."""
    n = len(SPECIALS)
    order = np.concatenate([np.arange(n), np.argsort(-counts[n:], kind="stable") + n])
    rank = np.empty(len(words), dtype=np.int32)
    rank[order] = np.arange(len(words), dtype=np.int32)
    return [words[i] for i in order], rank


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
