"""Documentation of software in Korean, kept as Markdown files."""

import re
from collections.abc import Iterable, Iterator

from ..korean_prose import count_words, is_korean_prose
from ..prose import markdown_paragraphs
from ..source import Blob, Document

_BOILERPLATE = re.compile(r"이 문서는|이 항목은|^\[!|:::|\s[.,;:](?:\s|$)|\(\)|\[\]")


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a page: its sentences in Korean."""
    for blob in blobs:
        lines = markdown_paragraphs(blob.text)
        kept = [
            line
            for line in lines
            if is_korean_prose(line, hangul=0.5) and not _BOILERPLATE.search(line)
        ]
        if count_words(kept) >= 20:
            yield Document(f"{blob.repository}/{blob.path}", kept)
