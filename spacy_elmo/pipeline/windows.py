"""Where a Doc is cut into the sentences that the biLM reads, and a warning of Docs that
come without their boundaries: other text around a sentence changes its vectors."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from spacy.attrs import ORTH
from spacy.language import Language
from spacy.pipeline import Sentencizer
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
    """Return a function that cuts Docs into what the biLM reads at once, pieces of at
    most `length` tokens, which bounds memory and time; [EL056] if that is below 1."""
    if length < 1:
        raise Errors.EL056(found=length)
    return Windows(length)


# -- Docs without boundaries -------------------------------------------------------

_ENDS = frozenset(Sentencizer.default_punct_chars)
_SETS = {"doc.sents", "token.is_sent_start"}  # of what a component says it assigns


class SentenceAdvice:
    """Warns once [ELW01, ELW64] of a Doc without boundaries that is read in windows, or
    whole although a sentence ends inside."""

    def __init__(self) -> None:
        self.is_given = False

    def check(
        self, name: str, docs: Sequence[DocPieces], setters: Callable[[], list[str]]
    ) -> None:
        """Look at Docs that are read by the component of a name. `setters` returns the
        names of the components before it that set boundaries."""
        for doc, pieces in docs:
            if doc.has_annotation("SENT_START"):
                continue
            if len(pieces) > 1:
                how = f"in {len(pieces)} windows"
            elif (end := _end_inside(doc)) is not None:
                how = f"as one sentence, though one ends at token {end} of {len(doc)}"
            else:
                continue
            self.is_given = True
            if names := setters():
                warnings.warn(Warnings.ELW64(name=name, setter=names[-1]), stacklevel=3)
            else:
                warnings.warn(Warnings.ELW01(name=name, how=how), stacklevel=3)
            return


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


def sentence_setters(nlp: Language, component: object) -> list[str]:
    """Return the names of the components before one of a pipeline that say that they
    set sentence boundaries."""
    before = takewhile(lambda named: named[1] is not component, nlp.pipeline)
    names = [name for name, _ in before]
    return [name for name in names if _SETS & {*nlp.get_pipe_meta(name).assigns}]
