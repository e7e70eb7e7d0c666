"""Small Korean texts: an empty line between documents, the first line a title; or a
table of questions and answers."""

import csv
import io
import re
from collections.abc import Iterable, Iterator

from ..korean_prose import MARKS, count_words, is_korean_prose, unglued
from ..prose import tidy
from ..source import Blob, Document

_DIALOGUES = 200  # questions with answers that make a document


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a text, or two hundred questions."""
    for blob in blobs:
        if blob.path.endswith(".csv"):
            yield from _dialogues(blob)
        else:
            yield from _texts(blob)


def _texts(blob: Blob) -> Iterator[Document]:
    for number, text in enumerate(re.split(r"\n\s*\n", blob.text)):
        pieces = (
            tidy(x).lstrip(MARKS) for line in text.split("\n") for x in unglued(line)
        )
        kept = [line for line in pieces if is_korean_prose(line, words=3, hangul=0.5)]
        if count_words(kept) >= 20:
            yield Document(f"{blob.path} {number}", kept)


def _dialogues(blob: Blob) -> Iterator[Document]:
    rows = list(csv.DictReader(io.StringIO(blob.text)))
    for start in range(0, len(rows), _DIALOGUES):
        part = rows[start : start + _DIALOGUES]
        lines = [tidy(row[side]) for row in part for side in ("Q", "A")]
        yield Document(f"{blob.path} {start}", [line for line in lines if line])
