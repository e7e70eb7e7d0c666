"""Sites kept as Markdown or HTML files: blogs, handbooks, documentation."""

import re
from collections.abc import Iterable, Iterator

from ..prose import html_paragraphs, is_english, is_prose, markdown_paragraphs
from ..source import Blob, Document

_FRONT = re.compile(r"\A\s*---\s*\n.*?\n---\s*\n", re.DOTALL)
_BOILERPLATE = re.compile(
    r"originally appeared on|originally posted|all rights reserved|^\(?photo|"
    r"image (?:via|"
    r"by|credit)|subscribe to|follow us|shortcode|deprecated|click here to|cookies?\b|"
    r"^note: this|this page|lorem ipsum|^: |\s[.,;:](?:\s|$)|\(\)|\[\]",
    re.IGNORECASE,
)


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a page: its sentences in English."""
    for blob in blobs:
        if blob.path.endswith(".html"):
            lines = html_paragraphs(_FRONT.sub("", blob.text, count=1))
        else:
            lines = markdown_paragraphs(blob.text)
        kept = [
            line
            for line in lines
            if is_prose(line, words=8) and not _BOILERPLATE.search(line)
        ]
        if sum(len(line.split()) for line in kept) >= 40 and is_english(kept):
            yield Document(f"{blob.repository}/{blob.path}", kept)
