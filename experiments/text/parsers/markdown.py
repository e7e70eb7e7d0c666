"""Documentation, lessons and acts in Markdown, in a language of Latin letters."""

import re
from collections.abc import Iterable, Iterator

from ..prose import is_prose, markdown_paragraphs
from ..source import Blob, Document

# A macro of MDN: what it shows is its second argument, or else its first.
_MACRO = re.compile(
    r"\{\{ *[A-Za-z]\w* *\( *[\"']([^\"']*)[\"'](?: *, *[\"']([^\"']*)[\"'])?[^{}]*\}\}"
)


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a file, without headings, code, tables and paragraphs of few
    words."""
    for blob in blobs:
        text = _MACRO.sub(lambda macro: macro[2] or macro[1], blob.text)
        lines = [line.removeprefix(": ") for line in markdown_paragraphs(text)]
        kept = [line for line in lines if is_prose(line, words=8)]
        yield Document(f"{blob.repository}/{blob.path}", kept)
