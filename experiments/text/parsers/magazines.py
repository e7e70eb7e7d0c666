"""Articles of opensource.com and Fedora Magazine, kept as Markdown for translators."""

import re
from collections.abc import Iterable, Iterator

from ..prose import is_english, is_prose, markdown_paragraphs
from ..source import Blob, Document

_VIA = re.compile(
    r"via:?\s*\(?\s*(https?://(?:www\.)?(?:opensource\.com|fedoramagazine\.org)/[^\s)]+)"
)
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_TAIL = re.compile(
    r"^-{10,}\s*\n+\s*via:|^\s*via:\s*https?:|^\s*(?:作者|译者|选题)", re.MULTILINE
)
_JUNK = re.compile(
    r"^(?:image|photo|picture|screenshot|\(?credit|cc by|creative commons)|"
    r"opensource\.com"
    r"|sign up|subscribe|this article (?:is|was|originally)|originally published|"
    r"published (?:under|with permission)|https?://|\s[.,;:](?:\s|$)|\(\)",
    re.IGNORECASE,
)


def choose(blobs: Iterable[Blob]) -> Iterator[Blob]:
    """Of every article of the two magazines, the longest text that is English."""
    best: dict[str, Blob] = {}
    for blob in blobs:
        via = _VIA.search(blob.text)
        if via is None or len(_CHINESE.findall(blob.text)) > 0.05 * len(blob.text):
            continue
        address = re.sub(r"^https?://(?:www\.)?|[?#].*$|/$", "", via[1])
        if address not in best or len(blob.data) > len(best[address].data):
            best[address] = blob
    yield from best.values()


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document an article."""
    for blob in blobs:
        text = re.sub(r"^\[#\]:.*\n", "", blob.text, flags=re.MULTILINE)
        lines = markdown_paragraphs(_TAIL.split(text, maxsplit=1)[0])
        kept = [
            line
            for line in lines
            if is_prose(line, words=8)
            and not _JUNK.search(line)
            and not _CHINESE.search(line)
        ]
        if sum(len(line.split()) for line in kept) >= 100 and is_english(kept):
            yield Document(blob.path, kept)
