"""What it costs to spell a word that a vocabulary does not have.

Perplexities over different vocabularies can't be compared: the smaller one calls the
hard words <UNK> and has an easy time. Bits per character can, if an unknown word is
charged for its spelling as well. It is spelled byte by byte, each predicted from the
one before, with counts from the vocabulary itself, so that a model needs nothing else.
"""

from collections.abc import Sequence

import numpy as np

from ..bilm.words import word_to_bytes
from ..text.corpus import SPECIALS

END = 256  # of a word, and its beginning


class Spelling:
    """Byte bigrams of a vocabulary's words, each word once, counts plus one half
    (Krichevsky and Trofimov 1981)."""

    def __init__(self, vocab: Sequence[str]) -> None:
        counts = np.full((257, 257), 0.5)
        for word in vocab[len(SPECIALS) :]:
            before, after = _pairs(word)
            np.add.at(counts, (before, after), 1)
        self._bits = -np.log2(counts / counts.sum(1, keepdims=True))

    def bits(self, word: str) -> float:
        before, after = _pairs(word)
        return float(self._bits[before, after].sum())


def _pairs(word: str) -> tuple[list[int], list[int]]:
    text = list(word_to_bytes(word))
    return [END, *text], [*text, END]
