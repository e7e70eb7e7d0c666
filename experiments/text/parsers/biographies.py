"""Histories of the US Department of State: the paragraphs of TEI files."""

from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from ..prose import is_prose, tidy
from ..source import Blob, Document

_TEI = "{http://www.tei-c.org/ns/1.0}"


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a file."""
    for blob in blobs:
        text = ElementTree.fromstring(blob.data).find(f".//{_TEI}text")
        if text is None:
            continue
        lines = (tidy("".join(part.itertext())) for part in text.iter(f"{_TEI}p"))
        if kept := [line for line in lines if is_prose(line, words=8)]:
            yield Document(blob.path, kept)
