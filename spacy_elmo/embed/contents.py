"""What a record of an input holds: text to be tokenised, or tokens."""

import re
from itertools import pairwise
from typing import NamedTuple

from ..text import MAX_TOKEN
from .records import Record

CHARACTERS_AT_ONCE = 1 << 17  # of a text, that are tokenised together
_CONLLU_ID = re.compile(r"\d+([-.]\d+)?")


class Sentence(NamedTuple):
    """Tokens, and where each starts and ends, in characters of its part."""

    tokens: list[str]
    starts: list[int]
    ends: list[int]


# A record's id, its text if that is to be tokenised, or else its sentences.
Content = tuple[str | None, str | None, list[Sentence]]


def _decoded(record: Record) -> str:
    text: str = record.data.decode("utf-8")
    return text if record.position else text.removeprefix("\ufeff")


def read_text(record: Record) -> Content:
    """Return what a line of text holds. Raises ValueError."""
    text = _decoded(record)
    if "\0" in text:
        raise ValueError("a zero byte")
    return None, text, []


def read_conllu(record: Record) -> Content:
    """Return what a sentence of CoNLL-U holds. Raises ValueError."""
    name, words, spaces, ended = None, [], [], False
    for line in _decoded(record).replace("\r\n", "\n").split("\n"):
        if line and ended:  # two sentences would be read as one
            raise ValueError(f"white space in an empty line before {line[:80]!r}")
        if line.startswith("#"):
            key, _, value = line[1:].partition("=")
            name = value.strip() if key.strip() == "sent_id" else name
        elif line.strip():
            fields = line.split("\t")
            if not _CONLLU_ID.fullmatch(fields[0]) or len(fields) < 2:
                raise ValueError(f"not a line of CoNLL-U: {line[:80]!r}")
            if fields[0].isdigit():  # neither a multiword token nor an empty node
                words.append(fields[1])
                spaces.append("SpaceAfter=No" not in fields[-1])
        else:
            ended = bool(words)
    return name, None, joined([words], spaces)


def cut_text(text: str) -> list[str]:
    """Cut a text after white space, so that no piece is much longer than what is
    tokenised at once."""
    cuts = [0]
    while len(text) - cuts[-1] > CHARACTERS_AT_ONCE:
        start, stop = cuts[-1], cuts[-1] + CHARACTERS_AT_ONCE
        middle = start + CHARACTERS_AT_ONCE // 2
        places = (text.rfind(space, middle, stop) + 1 for space in ("\n", " "))
        cuts.append(next(filter(None, places), stop))
    return [text[start:end] for start, end in pairwise([*cuts, len(text)])]


def clean(text: str) -> str:
    """Replace lone surrogates, which JSON can spell and UTF-8 can't."""
    if not isinstance(text, str):
        raise TypeError(f"a text of type {type(text).__name__}")
    return text.encode("utf-8", "replace").decode("utf-8")


def joined(rows: list[list[str]], spaces: list[bool] | None = None) -> list[Sentence]:
    """Return sentences of separate tokens, placed in the text that they make."""
    sentences, at = [], 0
    for row in rows:
        sentence = Sentence([], [], [])
        for i, word in enumerate(map(clean, row)):
            sentence.tokens.append(word[:MAX_TOKEN])
            sentence.starts.append(at)
            sentence.ends.append(at + len(word))
            at += len(word) + (spaces is None or spaces[i])
        if sentence.tokens:
            sentences.append(sentence)
    return sentences
