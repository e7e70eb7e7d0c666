"""Numbered words and running text: <S> tokens </S> <S> tokens </S> ...

Words are numbered by frequency. The first ones are the vocabulary; every other word is
<UNK> when it has to be predicted, but is still read by its characters. A corpus is in
memory (`build_corpus`) or in mapped files (`shards.py`); nothing that reads it knows
which. Shapes: V distinct words, C characters.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..bilm import BOS, EOS, UNK, UnicodeForm, encode_words, in_form
from ..errors import Errors

SPECIALS = (BOS, EOS, UNK)
BOS_ID, EOS_ID, UNK_ID = range(3)
MAX_CHARACTERS = 50  # of a word in the stored table, as in the published models
BLOCK = 1 << 20  # words of a long text that are read at once


class RunningText:
    """Word numbers of a long text (int32), in pieces that may be mapped files; `length`
    of them, all if None."""

    def __init__(self, pieces: Sequence[np.ndarray], length: int | None = None) -> None:
        self.pieces = pieces
        self.starts = np.cumsum([0, *(len(piece) for piece in pieces)])
        self.length = int(self.starts[-1]) if length is None else length

    def __len__(self) -> int:
        return self.length

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the words from start to stop (int32), fewer where the text ends."""
        stop = min(stop, self.length)
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        parts = []
        while start < stop:
            offset = int(self.starts[first])
            parts.append(self.pieces[first][start - offset : stop - offset])
            start = min(stop, int(self.starts[first + 1]))
            first += 1
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield the whole text, BLOCK words at a time."""
        for start in range(0, self.length, BLOCK):
            yield self.read(start, start + BLOCK)


@dataclass(frozen=True)
class Corpus:
    """A text whose words are numbered by frequency."""

    words: list[str]  # every distinct word, (V,)
    counts_V: np.ndarray  # how often each is in the text
    characters_VC: np.ndarray  # the bytes of each, as `encode_words` gives them
    vocab: list[str]  # the words that can be predicted
    target_V: np.ndarray  # the number of each word in vocab, or that of <UNK>
    forward: RunningText
    backward: RunningText  # with each sentence reversed, boundaries included

    def limit_vocab(self, size: int, min_count: int = 1) -> "Corpus":
        """Return the same text with a vocabulary of its most frequent words, `size` at
        most (special tokens included), each seen min_count times or more."""
        # Their order is that of the whole text, of which this may be the beginning.
        words, counts_V, _ = by_frequency(self.words, self.counts_V)
        n_words = vocabulary_size(counts_V, size, min_count)
        return self.with_vocab(list(dict.fromkeys(words[:n_words])))

    def with_vocab(self, vocab: Sequence[str]) -> "Corpus":
        """Return the same text, to be predicted in a given vocabulary."""
        index = {word: i for i, word in enumerate(vocab)}
        target_V = np.array([index.get(w, UNK_ID) for w in self.words], dtype=np.int32)
        return replace(self, vocab=list(vocab), target_V=target_V)

    def in_form(self, form: UnicodeForm | None) -> "Corpus":
        """Return the same text in a Unicode form; as it is if that is None. Words that
        are spelled alike then keep the numbers that they had."""
        words = list(in_form(self.words, form))
        changed = [i for i, word in enumerate(words) if word != self.words[i]]
        if not changed:
            return self
        characters_VC = np.array(self.characters_VC)
        some = encode_words([words[i] for i in changed], MAX_CHARACTERS)
        characters_VC[changed] = some.astype(np.uint16)
        found = replace(self, words=words, characters_VC=characters_VC)
        return found.with_vocab(self.vocab)

    def first(self, max_tokens: int | None) -> "Corpus":
        """Return the sentences that hold the first max_tokens tokens; all if None."""
        if max_tokens is None or max_tokens >= self.n_tokens:
            return self
        stop = 0
        for ids in self.forward.blocks():
            end = sentence_end(ids, max_tokens)
            stop += len(ids) if end is None else end
            if end is not None:
                break
            max_tokens -= count_tokens(ids)
        forward = RunningText(self.forward.pieces, stop)
        backward = RunningText(self.backward.pieces, stop)
        counts_V = np.zeros_like(self.counts_V)
        for ids in forward.blocks():
            counts_V += np.bincount(ids, minlength=len(counts_V))
        return replace(self, counts_V=counts_V, forward=forward, backward=backward)

    @cached_property
    def n_tokens(self) -> int:
        """Number of tokens of the text, boundaries not counted."""
        return int(self.counts_V.sum() - self.counts_V[[BOS_ID, EOS_ID]].sum())

    @property
    def n_known(self) -> int:
        """Number of tokens of the text that are in the vocabulary."""
        known_V = self.target_V != UNK_ID
        known_V[[BOS_ID, EOS_ID]] = False
        return int(self.counts_V[known_V].sum())

    @property
    def coverage(self) -> float:
        """Share of the tokens that are in the vocabulary."""
        return self.n_known / max(1, self.n_tokens)


def build_corpus(
    sentences: Iterable[Sequence[str]],
    *,
    vocab: Sequence[str] | None = None,
    vocab_size: int = 50_000,
    min_count: int = 1,
    max_tokens: int | None = None,
) -> Corpus:
    """Return a corpus in memory.

    Args:
        sentences: Lists of tokens.
        vocab: The words that are predicted; the most frequent ones of the text if None.
        vocab_size: How many of these at most, special tokens included.
        min_count: How often each of these is seen at least.
        max_tokens: Number of the token with whose sentence the text ends.

    Raises:
        ValueError: [EL033] There is no sentence.
    """
    words, ids = number_words(sentences, max_tokens)
    if not len(ids):
        raise Errors.EL033()
    words, counts_V, rank = by_frequency(words, np.bincount(ids, minlength=len(words)))
    ids = rank[ids]
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
    """Return the distinct words in order of appearance, the special tokens first, and
    the running text in their numbers (int32), which ends with the sentence that holds
    the token number max_tokens."""
    index = {word: i for i, word in enumerate(SPECIALS)}
    ids, n_tokens = array("i"), 0
    for sentence in sentences:
        ids.append(BOS_ID)
        # A token that is spelled like a boundary is none.
        words_read = (UNK if word in (BOS, EOS) else word for word in sentence)
        ids.extend([index.setdefault(word, len(index)) for word in words_read])
        ids.append(EOS_ID)
        n_tokens += len(sentence)
        if max_tokens is not None and n_tokens >= max_tokens:
            break
    return list(index), np.array(ids, dtype=np.int32)


def by_frequency(
    words: list[str], counts: np.ndarray
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the words by falling count, the special tokens first, their counts, and
    the new number of each old one (int32). Words of equal count stay in their order."""
    n = len(SPECIALS)
    order = np.concatenate([np.arange(n), np.argsort(-counts[n:], kind="stable") + n])
    rank = np.empty(len(words), dtype=np.int32)
    rank[order] = np.arange(len(words), dtype=np.int32)
    return [words[i] for i in order], counts[order], rank


def vocabulary_size(counts_V: np.ndarray, size: int, min_count: int) -> int:
    """Return the size of the vocabulary that `Corpus.limit_vocab` makes."""
    n = len(SPECIALS)
    return n + min(int((counts_V[n:] >= min_count).sum()), max(0, size - n))


def count_tokens(ids: np.ndarray) -> int:
    """Return the number of words that are no boundaries."""
    return int(((ids != BOS_ID) & (ids != EOS_ID)).sum())


def sentence_end(ids: np.ndarray, max_tokens: int) -> int | None:
    """Return where the sentence ends that holds the token number max_tokens of a
    running text; None if it ends beyond."""
    seen = np.cumsum((ids != BOS_ID) & (ids != EOS_ID))
    ends = np.flatnonzero((ids == EOS_ID) & (seen >= max_tokens))
    return int(ends[0]) + 1 if len(ends) else None


def check_vocab(vocab: Sequence[str], where: object) -> None:
    """Raise ValueError unless a vocabulary begins with the special tokens [EL034] and
    has each word once [EL039]."""
    if len(set(vocab)) != len(vocab):
        raise Errors.EL039(path=where)
    if tuple(vocab[:3]) != SPECIALS:
        raise Errors.EL034(path=where, found=", ".join(vocab[:3]))


def reverse_sentences(ids: np.ndarray) -> np.ndarray:
    """Return a running text with each sentence reversed, boundaries included."""
    starts = np.flatnonzero(ids == BOS_ID)
    ends = np.flatnonzero(ids == EOS_ID)
    mirror = np.repeat(starts + ends, ends - starts + 1) - np.arange(len(ids))
    return ids[mirror]
