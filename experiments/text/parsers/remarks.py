"""Speeches and remarks published by the White House, as plain text."""

import re
from collections.abc import Iterable, Iterator

from ..prose import is_english, is_prose, tidy
from ..source import Blob, Document

_SPEAKER = re.compile(r"^(?:Q|[A-Z][A-Z.'’ -]{1,60}(?:\([^)]*\))?:)\s+(?=\S)")
_NOTE = re.compile(
    r"\s*(?:--\s*)?\((?:applause|laughter|inaudible|cheers|music|off-?mike|speaks|"
    r"crosstalk|sings?|audience|gavel|sic|boo|phonetic|as (?:prepared|interpreted|"
    r"translated)|(?:the|a|an) \w+ (?:is|are) |cheer|in (?:english|spanish)|continues|"
    r"speaking|video|students)[^)]{0,60}(?:\)|(?<=\.)(?= ))\.?",
    re.IGNORECASE,
)
_START = re.compile(r"^\W*\d{1,2}:\d\d\s*[AP]\.?M\.?.*$", re.MULTILINE)
_STOP = re.compile(r"^\W*(?:END\b.*|\d{1,2}:\d\d\s*[AP]\.?M\.?.*)\s*$", re.MULTILINE)


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a text, by the address in its head; names of speakers and notes
    such as "(Applause.)" are cut."""
    seen: set[str] = set()
    for blob in blobs:
        text = blob.text.replace("\xa0", " ")
        address = re.search(r"https?://\S+", text)
        name = address[0] if address else blob.path
        if name in seen:
            continue
        seen.add(name)
        start = _START.search(text)
        body = (
            text[start.end() :]
            if start
            else re.split(r"The White House\s*\n", text)[-1]
        )
        body = _STOP.split(body, maxsplit=1)[0]
        kept = [line for raw in body.split("\n") if (line := _line(raw))]
        if sum(len(line.split()) for line in kept) >= 50 and is_english(kept):
            yield Document(name, kept)


def _line(raw: str) -> str:
    line = _SPEAKER.sub("", tidy(raw))
    line = tidy(_NOTE.sub("", line))
    return line if is_prose(line, words=2) else ""
