"""Debates of the European Parliament in French, of an annotated parallel corpus."""

import re
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from ..prose import tidy
from ..source import Blob, Document
from .speech import is_speech

_AT_ONCE = 4  # sentences of a speech that make a paragraph
_BEFORE = re.compile(r"^[\s.–-]*\([A-Z]{2}\)\s*")  # the language that was spoken
_NOTE = re.compile(r"\(\s*(?:Applaudissements|[A-Z]{2}|[^()]*séance[^()]*)[^()]*\)")
# In a third of the files the ligature is lost. These have no other reading.
_LIGATURE = (
    (re.compile(r"\b([Vv])ux\b"), r"\1œux"),
    (re.compile(r"\b([Vv])u\b(?= pieux)"), r"\1œu"),
    (re.compile(r"\buvr(?=(?:e|es|er|é|ée|ent|ant|ons|ez|ait|aient|ier|iers|era)\b)"),
     "œuvr"),
    (re.compile(r"\bUvre\b"), "Œuvre"),
    (re.compile(r"\b([Mm]an)uvr"), r"\1œuvr"),
    (re.compile(r"\b([Dd]és)uvr"), r"\1œuvr"),
    (re.compile(r"\b([Nn])ud(?=s?\b)"), r"\1œud"),
    (re.compile(r"\b([Bb])uf(?=s?\b)"), r"\1œuf"),
    (re.compile(r"\b([Cc]h?)ur(?=s?\b)"), r"\1œur"),
    (re.compile(r"\b([Éé])curant"), r"\1cœurant"),
)  # fmt: skip


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a file, without what the president says, which is formulas."""
    for blob in blobs:
        lines = []
        for speaker in ElementTree.fromstring(blob.data).iter("Speaker"):
            if speaker.get("name", "").startswith("President"):
                continue
            said = [tidy("".join(part.itertext())) for part in speaker.iter("fr")]
            said = [_mended(sentence) for sentence in said if sentence]
            for start in range(0, len(said), _AT_ONCE):
                line = " ".join(said[start : start + _AT_ONCE])
                if is_speech(line):
                    lines.append(line)
        yield Document(blob.path.rpartition("/")[2], lines)


def _mended(sentence: str) -> str:
    sentence = tidy(_NOTE.sub("", _BEFORE.sub("", sentence)))
    for lost, found in _LIGATURE:
        sentence = lost.sub(found, sentence)
    return sentence.replace(" ,", ",").replace(" .", ".")
