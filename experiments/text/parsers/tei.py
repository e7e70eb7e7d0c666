"""Novels in TEI: the paragraphs of the body."""

import re
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from ..prose import tidy
from ..source import Blob, Document

_TEI = "{http://www.tei-c.org/ns/1.0}"


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a novel; headings, page marks and title pages are left out."""
    for blob in blobs:
        body = ElementTree.fromstring(blob.data).find(f".//{_TEI}body")
        if body is None:
            continue
        lines = (tidy("".join(part.itertext())) for part in body.iter(f"{_TEI}p"))
        kept = [_closed(line) for line in lines if re.search(r"[a-z]", line)]
        yield Document(blob.path, kept)


def _closed(line: str) -> str:
    """Without the spaces that stood for mark-up before a mark."""
    return re.sub(r" +([,.;:!?])(?= |$)", r"\1", line)
