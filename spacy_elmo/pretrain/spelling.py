"""The probability of a word's spelling, for words that a vocabulary does not have.

Perplexities over different vocabularies can't be compared: the smaller one predicts
<UNK> for the hard words, which is easy. Bits per character can, if an unknown word is
scored with the probability of its spelling as well: byte by byte, each predicted from
the one before, with counts from the vocabulary itself.
"""

from collections.abc import Sequence

import numpy as np

from ..bilm.words import word_to_bytes
from ..text.corpus import SPECIALS

END = 256  # of a word, and its beginning


class Spelling:
    """Byte bigrams of a vocabulary's words, each word once, counts plus one half
    (Krichevsky and Trofimov 1981).

    Attributes:
        bits_of_pairs: -log2 p(byte | byte before), (257, 257).
    """

    def __init__(self, vocab: Sequence[str]) -> None:
        counts = np.full((257, 257), 0.5)
        for word in vocab[len(SPECIALS) :]:
            before, after = _pairs(word)
            np.add.at(counts, (before, after), 1)
        self.bits_of_pairs = -np.log2(counts / counts.sum(1, keepdims=True))

    def bits(self, word: str) -> float:
        """Return -log2 of the probability of a word's spelling."""
        before, after = _pairs(word)
        return float(self.bits_of_pairs[before, after].sum())


def _pairs(word: str) -> tuple[list[int], list[int]]:
    text = list(word_to_bytes(word))
    return [END, *text], [*text, END]
