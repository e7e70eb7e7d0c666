"""Novels as plain text, hard-wrapped, an empty line between paragraphs."""

import re
from collections.abc import Iterable, Iterator

from ..prose import tidy
from ..source import Blob, Document

_JUNK = re.compile(r"Gutenberg|Transcriber|\bE-?text\b|https?://|Illustration", re.I)


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a novel; headings, which have no small letters, are left out."""
    for blob in blobs:
        text = blob.text.replace("\r\n", "\n").replace("\r", "\n")
        if text.count("\n\n") < 50:
            blocks = text.split("\n")  # a paragraph a line
        else:
            blocks = re.split(r"\n\s*\n", text)
        paragraphs = [
            line.replace("_", "")
            for block in blocks
            if (line := tidy(block)) and re.search(r"[a-z]", line)
            if not _JUNK.search(line) and not re.match(r"(?i)(?:contents )?(?:chapter|book|volume)\b.{0,40}$", line)
        ]
        yield Document(blob.path, paragraphs)
