"""Korean Wikipedia as WikiExtractor writes it: `<doc>` elements of plain lines."""

import re
from collections.abc import Iterable, Iterator
from html import unescape

from ..korean_prose import count_words, is_korean_prose
from ..prose import tidy
from ..source import Blob, Document

WORDS = 50  # shorter articles are stubs, most of them made by programs
_DOC = re.compile(r'<doc id="(\d+)"[^>]*>\n(.*?)\n</doc>', re.DOTALL)
_TAGS = re.compile(r"</?[a-zA-Z][^<>]*>")
_EMPTY = re.compile(r"\s*[(（](?:[\s,;:·/–-]|또는|혹은)*[)）]")
_OPEN = re.compile(r"\((?:[\s,;:·]+)(?=\S)")
_CLOSE = re.compile(r"[\s,;:·]+\)")
_BEFORE_MARK = re.compile(r"\s+([,.;:!?])(?=\s|$)")
_GAP = re.compile(  # where a template stood: "높이 에 달하는", "밀도는 km2이다"
    r"(?:^|\s)(?:[는을를의에와]|이다\.)(?=\s|$)|,\s*,|"
    r"(?:[은는을를]|약) (?:km|m|cm|kg|명|개)"
)
_SENTENCES = re.compile(r"(?<=[가-힣][.!?])\s+")
_GLUED = re.compile(r"(?<=다\.)(?=[가-힣])")
_LINKS = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")
_TITLES = re.compile(r"<([가-힣][^<>]{0,60})>")


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document an article of at least `WORDS` words in sentences."""
    for blob in blobs:
        for number, text in _DOC.findall(blob.text):
            if len(text) < 3 * WORDS:
                continue
            kept = [line for raw in text.split("\n")[1:] if (line := _line(raw))]
            if count_words(kept) >= WORDS:
                yield Document(number, kept)


def _line(raw: str) -> str:
    if len(raw) < 20:
        return ""
    line = _TAGS.sub("", unescape(raw))
    line = tidy(_TITLES.sub(r"〈\1〉", _LINKS.sub(r"\1", line)))
    line = _CLOSE.sub(")", _OPEN.sub("(", _EMPTY.sub("", line)))
    line = _GLUED.sub(" ", _BEFORE_MARK.sub(r"\1", line))
    if _GAP.search(line):
        line = " ".join(x for x in _SENTENCES.split(line) if not _GAP.search(x))
    return line if is_korean_prose(line, hangul=0.5) else ""
