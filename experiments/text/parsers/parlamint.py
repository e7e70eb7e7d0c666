"""Debates as the ParlaMint corpora encode them: TEI, a segment a paragraph."""

from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from ..prose import tidy
from ..source import Blob, Document
from .speech import is_speech

_TEI = "{http://www.tei-c.org/ns/1.0}"


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a file, without what the chair says, which is mostly formulas."""
    for blob in blobs:
        lines = []
        for utterance in ElementTree.fromstring(blob.data).iter(f"{_TEI}u"):
            if "#chair" in utterance.get("ana", ""):
                continue
            for segment in utterance.iter(f"{_TEI}seg"):
                line = tidy("".join(_spoken(segment)))
                if is_speech(line):
                    lines.append(line)
        yield Document(blob.path.rpartition("/")[2], lines)


def _spoken(segment: ElementTree.Element) -> Iterator[str]:
    """The text of a segment without the stenographers' notes."""
    yield segment.text or ""
    for part in segment:
        yield part.tail or ""
