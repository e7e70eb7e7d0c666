"""Novels as plain text: an empty line between paragraphs, one paragraph per line, or
hard-wrapped lines with nothing between paragraphs."""

import re
from collections.abc import Iterable, Iterator

from ..prose import tidy
from ..source import Blob, Document
from .books import LAST_YEAR

_JUNK = re.compile(
    r"Gutenberg|Transcriber|\bE-?text\b|https?://|Illustration", re.IGNORECASE
)
_HEADING = re.compile(r"(?:contents )?(?:chapter|book|volume)\b.{0,40}$", re.IGNORECASE)
_YEAR = re.compile(r"_(\d{4})\.txt$")
_END = re.compile(r"[.!?:\"'”’)—-]$")


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a novel of a year up to `LAST_YEAR`; headings, which have no small
    letters, are left out."""
    for blob in blobs:
        year = _YEAR.search(blob.path)
        if year and int(year[1]) > LAST_YEAR:
            continue
        text = blob.text.replace("\r\n", "\n").replace("\r", "\n")
        paragraphs = [
            re.sub(r" +([,.;:!?])(?= |$)", r"\1", line.replace("_", ""))
            for block in _blocks(text)
            if (line := tidy(block)) and re.search(r"[a-z]", line)
            if not _JUNK.search(line) and not _HEADING.match(line)
        ]
        yield Document(blob.path, paragraphs)


def _blocks(text: str) -> list[str]:
    if text.count("\n\n") >= 50:
        return re.split(r"\n\s*\n", text)
    lines = [line.rstrip() for line in text.split("\n") if line.strip()]
    lengths = sorted(map(len, lines))
    if lengths[len(lines) // 2] > 75 or lengths[int(0.8 * len(lines))] > 100:
        return lines
    return _unwrapped(lines, width=lengths[int(0.95 * len(lines))])


def _unwrapped(lines: list[str], width: int) -> list[str]:
    """A line ends a paragraph if it ends a sentence and the first word of the next
    one would have had room in it."""
    found: list[str] = []
    held: list[str] = []
    for line, after in zip(lines, [*lines[1:], ""]):
        held.append(line)
        room = width - len(line) - 1
        if _END.search(line) and (len(after.split(" ", 1)[0]) <= room or not after):
            found.append(" ".join(held))
            held = []
    return [*found, " ".join(held)] if held else found
