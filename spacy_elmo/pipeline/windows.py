"""Cuts a Doc into the sentences that the biLM reads.

Docs that come without sentence boundaries are warned of: other text around a sentence
changes its vectors.
"""

import warnings
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.attrs import ORTH
from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc
from spacy.util import registry

from ..bilm import check_at_least
from ..errors import Warnings

if TYPE_CHECKING:
    from .component import Elmo

# Token indices of each sentence of a Doc, in order; white space is in none of them.
Pieces = list[np.ndarray]
SpanGetter = Callable[[Doc], Pieces]


class DocPieces(NamedTuple):
    """A Doc and the pieces of it that the biLM reads as sentences."""

    doc: Doc
    pieces: Pieces


def token_hash(doc: Doc) -> int:
    """Return a hash of the tokens of a Doc, of 64 bits."""
    return hash(doc.to_array(ORTH).tobytes())


class Windows:
    """Cuts a Doc into its sentences, or leaves it whole if they are not set.

    What is longer than `length` tokens is cut into pieces of near equal length, so that
    none is a mere leftover with hardly any context.
    """

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(self, doc: Doc) -> Pieces:
        """Return the token indices of each piece of a Doc."""
        if doc.has_annotation("SENT_START"):
            sentences = [(sentence.start, sentence.end) for sentence in doc.sents]
        else:
            sentences = [(0, len(doc))]
        pieces: Pieces = []
        # Not by IS_SPACE, which a Vocab of its own without a language does not know.
        is_word = np.array([not token.text.isspace() for token in doc], dtype=bool)
        for start, end in sentences:
            words = start + np.flatnonzero(is_word[start:end])
            if len(words):
                pieces += np.array_split(words, -(-len(words) // self.length))
        return pieces


@registry.misc("spacy-elmo.Windows.v1")
def configure_windows(length: int = 250) -> SpanGetter:
    """Return a function that cuts Docs into the pieces that the biLM reads one by one.
    A piece has at most `length` tokens, which bounds memory and time. Raises ValueError
    [EL026] if `length` is below 1."""
    check_at_least(1, length=length)
    return Windows(length)


# -- Docs without boundaries -------------------------------------------------------

_ENDS = frozenset(Sentencizer.default_punct_chars)
_SETS = {"doc.sents", "token.is_sent_start"}  # of what a component says it assigns


class SentenceAdvice:
    """Warns once of Docs that come to a component without sentence boundaries."""

    def __init__(self) -> None:
        self._is_given = False

    def give(self, docs: Sequence[DocPieces], component: "Elmo") -> None:
        """Warn [ELW01, ELW64] if one of the Docs of a component lacks boundaries."""
        how = None if self._is_given else _missing_boundaries(docs)
        if how is None:
            return
        self._is_given = True
        nlp, setters = component.pipeline(), list[str]()
        # Docs of a pipeline that it was sourced into have another vocab.
        if nlp is not None and docs[0].doc.vocab is nlp.vocab:
            setters = _sentence_setters(nlp, component)
        if setters:
            warning = Warnings.ELW64(name=component.name, setter=setters[-1])
        else:
            warning = Warnings.ELW01(name=component.name, how=how)
        warnings.warn(warning, stacklevel=3)


def _missing_boundaries(docs: Sequence[DocPieces]) -> str | None:
    """Look for a Doc without boundaries that is read in windows, or that is read whole
    although a sentence ends inside. Return how the first such Doc is read, or None if
    there is none."""
    for doc, pieces in docs:
        if doc.has_annotation("SENT_START"):
            continue
        if len(pieces) > 1:
            return f"in {len(pieces)} windows"
        if (end := _end_inside(doc)) is not None:
            return f"as one sentence, though one ends at token {end} of {len(doc)}"
    return None


def _end_inside(doc: Doc) -> int | None:
    """Return the index of the first mark that ends a sentence of a Doc and has words
    after it, None if there is none."""
    end = None
    for token in doc:
        if end is None:
            end = token.i if token.text in _ENDS else None
        elif any(map(str.isalnum, token.text)):
            return end
    return None


def _sentence_setters(nlp: Language, component: object) -> list[str]:
    """Return the names of the components that stand before one in a pipeline, and say
    that they set sentence boundaries."""
    before = takewhile(lambda named: named[1] is not component, nlp.pipeline)
    names = [name for name, _ in before]
    return [name for name in names if _SETS & {*nlp.get_pipe_meta(name).assigns}]
