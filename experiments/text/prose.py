"""Mark-up to paragraphs of prose: what the parsers share."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from html import unescape
from html.parser import HTMLParser

_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u2064\ufeff\ufff9-\ufffc]"
)
_END = re.compile(r"[.!?…][\"'”’»)\]*]*$")
_URL = re.compile(r"(?:https?://|www\.)\S+|\b\S+@\S+\.\w+")
_LETTERS = re.compile(r"[^\W\d_]+")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_COMMON = _set(
    "the of and to in a is that for it with as was on be by are this or from at an "
    "his he not have you had but which they we i their has were can all will"
)


def tidy(text: str) -> str:
    """One line: composed characters, single spaces, nothing invisible."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return " ".join(_INVISIBLE.sub("", text).split())


def is_prose(text: str, *, words: int = 6, letters: float = 0.7) -> bool:
    """Whether a line is sentences: enough words, an end, mostly letters, at most one
    address."""
    return (
        text.count(" ") + 1 >= words
        and _END.search(text) is not None
        and sum(map(len, _LETTERS.findall(text))) >= letters * len(text)
        and len(_URL.findall(text)) <= 1
        and "{" not in text
        and "\ufffd" not in text
    )


def is_english(paragraphs: Iterable[str], share: float = 0.15) -> bool:
    """Whether enough of the words are the most common ones of English."""
    found = [word.lower() for text in paragraphs for word in text.split()]
    return sum(word in _COMMON for word in found) >= share * len(found)


_BLOCKS = _set(
    "p div li ul ol dl dt dd h1 h2 h3 h4 h5 h6 br hr tr td th table blockquote "
    "section article header footer figure figcaption pre body html"
)
_SKIPPED = _set(
    "pre table script style figure figcaption head h1 h2 h3 h4 h5 h6 sup svg iframe "
    "button form nav footer textarea select math aside"
)


class _Html(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.text: list[str] = []
        self.skipping: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _BLOCKS:
            self.flush()
        if tag in _SKIPPED:
            self.skipping.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _BLOCKS:
            self.flush()
        if tag in self.skipping:
            while self.skipping.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self.skipping:
            self.text.append(data)

    def flush(self) -> None:
        if text := tidy("".join(self.text)):
            self.found.append(text)
        self.text.clear()


def html_paragraphs(html: str) -> list[str]:
    """The text of an HTML page or piece, without code, tables, headings, captions."""
    reader = _Html()
    reader.feed(html)
    reader.close()
    reader.flush()
    return reader.found


_FRONT = re.compile(
    r"\A\s*(?:---|\+\+\+)\s*\n.*?\n(?:---|\+\+\+)[ \t]*(?:\n|\Z)", re.DOTALL
)
_FENCES = re.compile(
    r"^[ \t>]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t>]*\1[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_COMMENTS = re.compile(
    r"<!--.*?-->|\{\{[<%]?.*?[>%]?\}\}|\{%.*?%\}"
    r"|<(pre|table|script|style|svg|iframe|figure)\b.*?</\1\s*>",
    re.DOTALL | re.IGNORECASE,
)
_TAGS = re.compile(r"(`+[^`]*`+)|</?[a-zA-Z][^<>]*>")
_IMAGES = re.compile(r"!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])|\[\^[^\]]*\]")
_LINKS = re.compile(
    r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\](?:\((?:[^()]|\([^()]*\))*\)|\[[^\]]*\])"
)
_EMPHASIS = re.compile(r"(?<!\w)(\*{1,3}|_{1,3})(?=\S)(.+?)(?<=\S)\1(?!\w)")
_STARS = re.compile(r"\*{1,3}(?=\S)(.+?)(?<=\S)\*{1,3}")
_ATTRIBUTES = re.compile(r"\{:?[.#][^}]*\}")
_ESCAPES = re.compile(r"\\([\\`*_{}\[\]()#+.!<>~|'\"$&-])")
_ITEM = re.compile(r"^\s{0,8}(?:[-*+•]|\(?\d{1,3}[.)])\s+")
_DROPPED = re.compile(
    r"^\s*(?:#{1,6}(?:\s|$)|\||[-=*_]{3,}\s*$|\[[^\]]*\]:|!\[|:{3}|\+[-=])|"
    r"^(?:\t| {4,})"
)


def markdown_paragraphs(text: str) -> list[str]:
    """The paragraphs and list items of a Markdown file, without code, tables,
    headings and front matter."""
    text = _FRONT.sub("", text.replace("\r\n", "\n"), count=1)
    text = _COMMENTS.sub(" ", _FENCES.sub("\n", text))
    found = []
    for block in re.split(r"\n\s*\n", text):
        for piece in _pieces(block):
            if plain := _inline(piece):
                found.append(plain)
    return found


def _pieces(block: str) -> Iterator[str]:
    lines: list[str] = []
    in_list = bool(_ITEM.match(block.lstrip("\n")))
    for quoted in block.split("\n"):
        line = re.sub(r"^\s{0,3}(?:>\s?)+", "", quoted)
        starts = _ITEM.match(line)
        if _DROPPED.match(line.lstrip() if in_list else line):
            yield " ".join(lines)
            lines = [""]
        elif starts:
            yield " ".join(lines)
            lines = [line[starts.end() :]]
        else:
            lines.append(line)
    yield " ".join(lines)


def _inline(text: str) -> str:
    text = _LINKS.sub(r"\1", _LINKS.sub(r"\1", _IMAGES.sub("", text)))
    text = _TAGS.sub(lambda tag: tag[1] or "", _ATTRIBUTES.sub("", text))
    text = text.replace("`", "")
    text = _EMPHASIS.sub(r"\2", _STARS.sub(r"\1", text))
    return tidy(unescape(_ESCAPES.sub(r"\1", text)))
