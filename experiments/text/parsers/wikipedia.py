"""English Wikipedia as plain text, one article a file, bold text in capitals."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from ..prose import tidy
from ..source import Blob, Document

_END = re.compile(
    r"^(?:References|Notes|See also|External links|Further reading|Bibliography|"
    r"Sources|Footnotes|Citations|Discography|Filmography|Notes and references|"
    r"Works cited)\s*$",
    re.MULTILINE,
)
_NOTES = re.compile(r"\[(?:\d+|[a-z]|note \d+|citation needed)\]")
_ITALICS = re.compile(r"(?<!\w)_(?=\S)(.+?)(?<=\S)_(?!\w)")
_EMPTY = re.compile(r"\s*\((?:[\s,;:/–-]|or|and)*\)")
_OPEN = re.compile(r"\((?:[\s,;:]+|(?:or|and)\s)+(?=\S)")
_BEFORE_MARK = re.compile(r"\s+([,.;:!?)])(?=\s|$)")
_JUNK = re.compile(r"\|\||\]\]|\[\[|==|\{|\}|Category:|\|\w+=|px\||^\||\\")
_LISTED = re.compile(r"^\s*(?:[-*•] |\d+\. |[-+=|:]{3,}|  \S.* {3,}\S)")
_PICTURE = re.compile(
    r"^.{1,80}?\.(?:png|jpe?g|svg|gif|tiff?|ogg|webm)\b[|\s]*|^NOTOC\s+", re.IGNORECASE
)
_SENTENCES = re.compile(r"(?<=[.!?]) (?=[A-Z\"“(])")
_GAP = re.compile(  # where a template stood: "an area of, all of it land"
    r"\b(?:of|at|by|about|than|approximately|nearly|around|roughly|the|an?|between|"
    r"stands|is|was|are|were|for|with)(?:,|;|\.$| \)|\))"
)
_FINAL = re.compile(r"[.!?…][\"'”’)]*$")
_CAPITALS = re.compile(r"\b[A-ZÀ-ÖØ-Þ][A-ZÀ-ÖØ-Þ'’-]*[A-ZÀ-ÖØ-Þ]\b")


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """Articles without their lists, tables, notes and headings."""
    for blob in blobs:
        title = blob.path.rpartition("/")[2].removesuffix(".md").replace("_", " ")
        paragraphs = list(_paragraphs(_END.split(blob.text, maxsplit=1)[0]))
        if sum(len(text.split()) for text in paragraphs) >= 25:
            yield Document(blob.path, _recased(paragraphs, title))


def _paragraphs(text: str) -> Iterator[str]:
    for raw in text.split("\n"):
        if len(raw) < 40 or _LISTED.match(raw) or _JUNK.search(raw):
            continue
        line = _mended(raw)
        if _FINAL.search(line) and line.count(" ") >= 7:
            yield line


def _mended(line: str) -> str:
    """A paragraph without notes, pictures and sentences with gaps."""
    line = _NOTES.sub("", line)
    line = _ITALICS.sub(r"\1", line).replace("_", " ")
    line = _OPEN.sub("(", _EMPTY.sub("", tidy(line)))
    line = _BEFORE_MARK.sub(r"\1", _PICTURE.sub("", line))
    if _GAP.search(line):
        line = " ".join(x for x in _SENTENCES.split(line) if not _GAP.search(x))
    return line


def _recased(paragraphs: list[str], title: str) -> list[str]:
    """Bold words, which stand in capitals, in the case they have elsewhere."""
    words = Counter(re.findall(r"[^\W\d_][\w'’-]*", " ".join(paragraphs)))
    forms: dict[str, str] = {}
    for word, _ in sorted(words.items(), key=lambda item: (item[1], item[0])):
        if not word.isupper():
            forms[word.lower()] = word
    for word in re.findall(r"[^\W\d_][\w'’-]*", title):
        forms.setdefault(word.lower(), word)
    in_title = {word.lower() for word in title.split()}
    first = _CAPITALS.match(paragraphs[0])
    if first and words[first[0]] == 1 and len(first[0]) > 3:
        in_title.add(first[0].lower())  # a name that is longer than the title
        forms.setdefault(first[0].lower(), first[0].title())
    return [
        _recase(text, forms, in_title if number < 3 else set())
        for number, text in enumerate(paragraphs)
    ]


def _recase(text: str, forms: dict[str, str], bold: set[str]) -> str:
    spans = [match.span() for match in _CAPITALS.finditer(text)]
    if not spans:
        return text
    found, end = [], 0
    for number, (start, stop) in enumerate(spans):
        word = text[start:stop]
        beside = (number > 0 and start - spans[number - 1][1] <= 1) or (
            number + 1 < len(spans) and spans[number + 1][0] - stop <= 1
        )
        if word.lower() in bold or (beside and len(word) > 1):
            form = forms.get(word.lower(), word.capitalize() if len(word) > 3 else word)
            if start == 0:
                form = form[:1].upper() + form[1:]
            word = form
        elif len(word) > 4 and word.lower() in forms:
            word = forms[word.lower()]
        found += [text[end:start], word]
        end = stop
    return "".join([*found, text[end:]])
