"""Transcripts of podcasts in Markdown: `**Name:** what was said`."""

import re
from collections.abc import Iterable, Iterator

from ..prose import markdown_paragraphs
from ..source import Blob, Document

_SPEAKER = re.compile(r"^[ \t]*\*\*[^*\n]{1,80}?:?\*\*:?[ \t]*", re.MULTILINE)
_NOTE = re.compile(r"\\\[.*?\\\]|\[(?:\d+:)?\d+:\d\d(?:\.\d+)?\]")
_HEARD = re.compile(r"\s+([,.!?])(?=\s|$)")


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document an episode, without names, time marks and notes in brackets."""
    for blob in blobs:
        text = _NOTE.sub("", _SPEAKER.sub("", blob.text))
        lines = (_HEARD.sub(r"\1", line) for line in markdown_paragraphs(text))
        kept = [line for line in lines if re.search(r"[a-z]", line) and "`" not in line]
        yield Document(blob.path, kept)
