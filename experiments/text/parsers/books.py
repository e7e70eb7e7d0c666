"""Classic books in Markdown, with title, author and year at the top."""

import re
from collections.abc import Iterable, Iterator

from ..prose import tidy
from ..source import Blob, Document

LAST_YEAR = 1929  # later books, and those without a year, are not read
_YEAR = re.compile(r"^## Year:\s*(?:c\.?\s*)?(\d{3,4})\b", re.MULTILINE)
_PICTURE = re.compile(r"!?\[[^\]]*\]\([^)]*\)|\[(?:Illustration|Footnote)[^\]]*\]")
_MARKS = re.compile(r"(?<!\w)[_*]{1,3}(?=\S)(.+?)(?<=\S)[_*]{1,3}(?!\w)")
_BOILERPLATE = re.compile(
    r"Gutenberg|Transcriber|E-text|\bEtext\b|https?://|^\W*Footnote", re.IGNORECASE
)


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """Books of years up to `LAST_YEAR`, without headings and pictures."""
    for blob in blobs:
        text = blob.text.replace("\r\n", "\n")
        year = _YEAR.search(text)
        if year is None or int(year[1]) > LAST_YEAR:
            continue
        body = re.split(r"^-{3,}\s*$", text, maxsplit=1, flags=re.MULTILINE)[-1]
        yield Document(blob.path, list(_paragraphs(body)))


def _paragraphs(text: str) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", text):
        if re.match(r"\s*(?:#|\||[-*_=\s]+$|>?\s*$)", block):
            continue
        if _BOILERPLATE.search(block):
            continue
        line = tidy(
            re.sub(r"^\s*>\s?", "", _PICTURE.sub("", block), flags=re.MULTILINE)
        )
        line = _MARKS.sub(r"\1", line).replace("\\", "").replace("_", "")
        if re.search(r"[a-z]", line):
            yield line
