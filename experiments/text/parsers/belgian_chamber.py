"""Debates of the Belgian Chamber: what was said in French, of HTML made by Word."""

import re
from collections.abc import Iterable, Iterator

from ..prose import html_paragraphs
from ..source import Blob, Document
from .speech import is_speech

_FRENCH = re.compile(r"<p class=NormalFR\b.*?</p>", re.DOTALL)
_SPEAKER = re.compile(r"^\d\d\.\d\d .{3,60}?(?:\([^()]{1,40}\))? ?: ")


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a meeting, without the names and numbers of the speakers."""
    for blob in blobs:
        html = "\n".join(_FRENCH.findall(blob.text))
        lines = [_SPEAKER.sub("", line) for line in html_paragraphs(html)]
        kept = [line for line in lines if is_speech(line)]
        yield Document("/".join(blob.path.split("/")[-2:]), kept)
