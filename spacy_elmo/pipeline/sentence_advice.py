"""Warnings about Docs that come to `elmo` without sentence boundaries: the biLM reads
each sentence by itself, and other text around it changes its vectors."""

import warnings
from collections.abc import Sequence
from itertools import takewhile

from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from ..errors import Warnings
from .windows import DocPieces

_ENDS = frozenset(Sentencizer.default_punct_chars)
_SETS = {"doc.sents", "token.is_sent_start"}  # of what a component says it assigns


class SentenceAdvice:
    """Warns once [ELW01, ELW64] of a Doc without boundaries that is read in windows, or
    whole although a sentence ends inside."""

    _is_given = False

    def check(self, nlp: Language | None, name: str, docs: Sequence[DocPieces]) -> None:
        """Look at Docs that are read by the component of a name in a pipeline."""
        if self._is_given:
            return
        for doc, pieces in docs:
            if doc.has_annotation("SENT_START"):
                continue
            if len(pieces) > 1:
                how = f"in windows, {len(pieces)} of them"
            elif (end := _end_inside(doc)) is not None:
                how = f"as one sentence, though one ends at token {end} of {len(doc)}"
            else:
                continue
            self._is_given = True
            if setters := _sentence_setters(nlp, name):
                warning = Warnings.ELW64(name=name, setter=setters[-1])
            else:
                warning = Warnings.ELW01(name=name, how=how)
            warnings.warn(warning, stacklevel=3)
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


def _sentence_setters(nlp: Language | None, name: str) -> list[str]:
    """Return the names of the components before one of a pipeline that say that they
    set sentence boundaries."""
    if nlp is None or name not in nlp.pipe_names:
        return []
    before = takewhile(lambda other: other != name, nlp.pipe_names)
    return [other for other in before if _SETS & {*nlp.get_pipe_meta(other).assigns}]
