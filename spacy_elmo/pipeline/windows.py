"""Where a Doc is cut into the sentences that the biLM reads."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from spacy.attrs import ORTH
from spacy.tokens import Doc
from spacy.util import registry

from ..errors import Errors, Warnings

# Token indices of each sentence of a Doc, in order; white space is in none of them.
Pieces = list[np.ndarray]
SpanGetter = Callable[[Doc], Pieces]


class DocPieces(NamedTuple):
    """A Doc and the pieces of it that the biLM reads as sentences."""

    doc: Doc
    pieces: Pieces


def tokens_of(doc: Doc) -> int:
    """Return a number that differs, as far as 64 bits go, if a Doc's tokens do."""
    return hash(doc.to_array(ORTH).tobytes())


def docs_by_tokens(
    docs: Iterable[Doc], n_tokens: int, batch_size: int | None = None
) -> Iterator[list[Doc]]:
    """Yield Docs in order, in groups of at most batch_size Docs, and of no more Docs
    than reach n_tokens."""
    group: list[Doc] = []
    tokens = 0
    for doc in docs:
        group.append(doc)
        tokens += len(doc)
        if len(group) == batch_size or tokens >= n_tokens:
            yield group
            group, tokens = [], 0
    if group:
        yield group


class Windows:
    """Cuts a Doc into its sentences, or leaves it whole if they are not set.

    What is longer than `length` tokens is cut into pieces of near equal length, so that
    none is a mere leftover with hardly any context.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._warned = False

    def __call__(self, doc: Doc) -> Pieces:
        """Return the token indices of each piece of a Doc."""
        if doc.has_annotation("SENT_START"):
            sentences = [(sentence.start, sentence.end) for sentence in doc.sents]
        else:
            sentences = [(0, len(doc))]
            if len(doc) > self.length and not self._warned:
                self._warned = True
                warnings.warn(Warnings.ELW01(length=self.length), stacklevel=2)
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
    """Return a function that cuts Docs into what the biLM reads at once, pieces of at
    most `length` tokens, which bounds memory and time; [EL056] if that is below 1."""
    if length < 1:
        raise Errors.EL056(found=length)
    return Windows(length)
