"""Numbered words and running text: <S> tokens </S> <S> tokens </S> ...

Words are numbered by frequency. The first words are the vocabulary. Any other word is
<UNK> as a target, but is still read by its characters. A corpus is in memory
(`build_corpus`) or in mapped files (`shards.py`), with the same methods.

Shapes: V distinct words, C characters.
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
MAX_CHARACTERS = 50  # of a word in the character table, as in the published models
BLOCK = 1 << 20  # words that `blocks` yields at once


class RunningText:
    """The word numbers of a long text.

    Args:
        pieces: The numbers (int32), in arrays that may be mapped files.
        length: Number of words of the text; None for all.
    """

    def __init__(self, pieces: Sequence[np.ndarray], length: int | None = None) -> None:
        self.pieces = pieces
        self.starts = np.cumsum([0, *(len(piece) for piece in pieces)])
        self.length = int(self.starts[-1]) if length is None else length

    def __len__(self) -> int:
        return self.length

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the words from start to stop (int32), or to the end of the text."""
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

    def counts(self, n_words: int) -> np.ndarray:
        """Return the count of each word, or an empty array if a number stands for no
        word."""
        counts_V = np.zeros(n_words, dtype=np.int64)
        for ids in self.blocks():
            if int(ids.min()) < 0 or int(ids.max()) >= n_words:
                return counts_V[:0]
            counts_V += np.bincount(ids, minlength=n_words)
        return counts_V


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
        """Return the same text with a vocabulary of its most frequent words.

        Args:
            size: Most words of the vocabulary, special tokens included.
            min_count: Least number of times that a word is in the text.
        """
        # The text may be the beginning of another, which gave the words their order.
        words, counts_V, _ = by_frequency(self.words, self.counts_V)
        n_words = vocabulary_size(counts_V, size, min_count)
        return self.with_vocab(list(dict.fromkeys(words[:n_words])))

    def with_vocab(self, vocab: Sequence[str]) -> "Corpus":
        """Return the same text with another vocabulary."""
        index = {word: i for i, word in enumerate(vocab)}
        target_V = np.array([index.get(w, UNK_ID) for w in self.words], dtype=np.int32)
        return replace(self, vocab=list(vocab), target_V=target_V)

    def in_form(self, form: UnicodeForm | None) -> "Corpus":
        """Return the same text in a Unicode form, or unchanged if it is None. Words
        that become equal keep their own numbers."""
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
        """Return the sentences with the first max_tokens tokens, or all if it is
        None."""
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
        counts_V = forward.counts(len(self.words))
        return replace(self, counts_V=counts_V, forward=forward, backward=backward)

    @cached_property
    def n_tokens(self) -> int:
        """Number of tokens of the text, without boundaries."""
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
        vocab: The vocabulary; None for the most frequent words of the text.
        vocab_size: Most words of that vocabulary, special tokens included.
        min_count: Least number of times that a word of it is in the text.
        max_tokens: The text ends with the sentence of this token; None for all.

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
    """Number the words of sentences by first appearance, after the special tokens.

    Args:
        sentences: Lists of tokens.
        max_tokens: The text ends with the sentence of this token; None for all.

    Returns:
        The distinct words by number; the running text (int32).
    """
    index = {word: i for i, word in enumerate(SPECIALS)}
    ids, n_tokens = array("i"), 0
    for sentence in sentences:
        ids.append(BOS_ID)
        # A token with the spelling of a boundary becomes <UNK>.
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
    """Order words by falling count, after the special tokens. Words of equal count keep
    their order. Return the words, their counts, and the new number of each old number
    (int32)."""
    n = len(SPECIALS)
    order = np.concatenate([np.arange(n), np.argsort(-counts[n:], kind="stable") + n])
    rank = np.empty(len(words), dtype=np.int32)
    rank[order] = np.arange(len(words), dtype=np.int32)
    return [words[i] for i in order], counts[order], rank


def vocabulary_size(counts_V: np.ndarray, size: int, min_count: int) -> int:
    """Return the size of the vocabulary of `Corpus.limit_vocab`."""
    n = len(SPECIALS)
    return n + min(int((counts_V[n:] >= min_count).sum()), max(0, size - n))


def count_tokens(ids: np.ndarray) -> int:
    """Return the number of words without boundaries."""
    return int(((ids != BOS_ID) & (ids != EOS_ID)).sum())


def sentence_end(ids: np.ndarray, max_tokens: int) -> int | None:
    """Return the end of the sentence with token number max_tokens of a running text, or
    None if the text ends before."""
    seen = np.cumsum((ids != BOS_ID) & (ids != EOS_ID))
    ends = np.flatnonzero((ids == EOS_ID) & (seen >= max_tokens))
    return int(ends[0]) + 1 if len(ends) else None


def check_vocab(vocab: Sequence[str], where: object) -> None:
    """Raise ValueError unless a vocabulary begins with the special tokens [EL034], and
    has each word once [EL039]. where: its place, for the message."""
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
