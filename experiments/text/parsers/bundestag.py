"""Protocols of the German Bundestag in the XML of its open data, from 2017."""

from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from ..prose import tidy
from ..source import Blob, Document
from .speech import is_speech

_TEXT = {"J", "J_1", "O"}  # classes of paragraphs; the others are heads, votes, verse


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a sitting: what the speakers say, without the chair and calls."""
    for blob in blobs:
        debate = ElementTree.fromstring(blob.data).find("sitzungsverlauf")
        if debate is None:
            continue
        lines = [line for speech in debate.iter("rede") for line in _speech(speech)]
        yield Document(blob.path.rpartition("/")[2], lines)


def _speech(speech: ElementTree.Element) -> Iterator[str]:
    """Paragraphs after a speaker's name, up to the chair's (`name`)."""
    by_speaker = False
    for part in speech:
        if part.tag == "name":
            by_speaker = False
        elif part.get("klasse") == "redner":
            by_speaker = True
        elif by_speaker and part.tag == "p" and part.get("klasse") in _TEXT:
            line = tidy("".join(part.itertext()))
            if is_speech(line):
                yield line
