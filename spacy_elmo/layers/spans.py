"""Where a Doc is cut into the sentences that the biLM reads."""

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from spacy.attrs import IS_SPACE
from spacy.tokens import Doc
from spacy.util import registry

from ..errors import Errors, Warnings

# Token indices of each sentence of a Doc, in order; white space is in none of them.
SpanGetter = Callable[[Doc], list[np.ndarray]]


class Windows:
    """Sentences where they are set, else the whole Doc; pieces of `length` at most.

    Longer ones are cut into pieces of near equal length, so that none is a mere
    leftover with hardly any context.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._warned = False

    def __call__(self, doc: Doc) -> list[np.ndarray]:
        pieces: list[np.ndarray] = []
        is_word = doc.to_array(IS_SPACE) == 0
        for start, end in self._sentences(doc):
            words = start + np.flatnonzero(is_word[start:end])
            if len(words):
                n_pieces = -(-len(words) // self.length)
                pieces.extend(np.array_split(words, n_pieces))
        return pieces

    def _sentences(self, doc: Doc) -> Iterator[tuple[int, int]]:
        if doc.has_annotation("SENT_START"):
            for sentence in doc.sents:
                yield sentence.start, sentence.end
            return
        if len(doc) > self.length and not self._warned:
            self._warned = True
            warnings.warn(Warnings.ELW01.format(length=self.length), stacklevel=2)
        yield 0, len(doc)


@registry.misc("spacy-elmo.Windows.v1")
def configure_windows(length: int = 250) -> SpanGetter:
    """length: tokens the biLM reads at once at most, which bounds memory and time.

    Raises ValueError [EL056].
    """
    if length < 1:
        raise ValueError(Errors.EL056.format(found=length))
    return Windows(length)
