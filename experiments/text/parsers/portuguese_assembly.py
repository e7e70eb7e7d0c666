"""Debates of the Portuguese Assembleia da República: XML, an utterance a speech."""

from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from ..prose import tidy
from ..source import Blob, Document
from .speech import is_speech


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a sitting, without what the president and the secretaries say."""
    for blob in blobs:
        lines = []
        for speech in ElementTree.fromstring(blob.data).iter("utterance"):
            if (
                speech.get("speaker-role") == "president"
                or speech.get("speaker-id") == "-1"
            ):
                continue
            for line in map(tidy, (speech.text or "").split("\n")):
                if is_speech(line):
                    lines.append(line)
        yield Document(blob.path.rpartition("/")[2], lines)
