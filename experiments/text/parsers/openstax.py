"""Textbooks of OpenStax: the paragraphs of their modules, which are CNXML."""

import re
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from ..prose import is_prose, tidy
from ..source import Blob, Document

_CNX = "{http://cnx.rice.edu/cnxml}"
_LEFT_OUT = frozenset(
    _CNX + tag
    for tag in (
        *("figure", "table", "exercise", "equation", "glossary", "metadata", "code"),
        *("footnote", "media", "cite", "preformat"),
    )
)
_SOURCES = re.compile(
    r"https?:|retrieved (?:from|on|\w+ \d)|accessed \w+ \d|\b(?:19|"
    r"20)\d\d[a-z]?\. [“\"A-Z]|"
    r"(?:Press|Books?|Publish\w+|Routledge|Wiley|Sons|Norton|Penguin|Academic), \d{4}|"
    r"\b[Vv]ol\. \d|\b\d+ ?\(\d+\): ?\d|^(?:Visit|Watch|Read|Listen to|Explore|"
    r"Check out|"
    r"Go to|Click|Review|Browse|Take) (?:this|the|these)\b|\b(?:in|see|of|from|by|and|"
    r"to|with) "
    r"?[.,;)]|\(\]|\( |this (?:site|website|video|link)"
)


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a module, without exercises, tables, captions and glossaries."""
    for blob in blobs:
        root = ElementTree.fromstring(blob.data)
        content = root.find(f"{_CNX}content")
        if content is None:
            continue
        _prune(content)
        lines = [_plain(part) for part in content.iter(f"{_CNX}para")]
        kept = [x for x in lines if _good(x)]
        if kept:
            yield Document(f"{blob.repository}/{blob.path}", kept)


def _good(line: str) -> bool:
    return is_prose(line) and not line[0].islower() and not _SOURCES.search(line)


def _plain(part: ElementTree.Element) -> str:
    line = tidy("".join(part.itertext()))
    line = re.sub(
        r"\s*\((?:see\s)?(?:Figure|Table)?\s*\)", "", line, flags=re.IGNORECASE
    )
    return re.sub(r" +([,.;:!?)])", r"\1", line)


def _prune(part: ElementTree.Element) -> None:
    before: ElementTree.Element | None = None
    for child in list(part):
        if _left_out(child):
            if before is None:
                part.text = (part.text or "") + (child.tail or "")
            else:
                before.tail = (before.tail or "") + (child.tail or "")
            part.remove(child)
        else:
            _prune(child)
            before = child


def _left_out(part: ElementTree.Element) -> bool:
    kind = part.get("class", "")
    return (
        part.tag in _LEFT_OUT
        or part.tag.endswith("}math")
        or "reference" in kind
        or kind in ("learning-objectives", "key-terms", "further-research")
    )
