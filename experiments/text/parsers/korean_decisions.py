"""Judgments of Korean courts and decisions of the Constitutional Court: the reasons."""

import re
from collections.abc import Iterable, Iterator
from html import unescape

from ..korean_prose import MARKS, count_words, is_korean_prose
from ..prose import tidy
from ..source import Blob, Document

WORDS = 150  # shorter ones are dismissals in set phrases
_REASONS = re.compile(r"【\s*이\s*유\s*】")
_HEADS = re.compile(r"【[^】\n]*】")
_CONTINUED = re.compile(r"[ \t]*\n[ \t]{4,}")
_NUMBER = re.compile(
    r"^\W*(?:(?:\d{1,2}|[가-하]|[ⅠⅡⅢⅣⅤIV]+|[a-z])[.)]|"
    r"[(（](?:\d{1,2}|[가-하]|[a-z])[)）]|[①-⑳㉠-㉻])\s*"
)
_CITED = re.compile(r"\s*\([^()]*(?:선고|자 |결정|판결|참조|호증)[^()]*\)")
_SHORTENED = re.compile(
    r"생략|별지|기재와 같다|\[별표|\d면 \d+행|^재판장|^재판관|^판사|^대법관"
)


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a decision: the paragraphs of its reasons."""
    for blob in blobs:
        reasons = _REASONS.split(unescape(blob.text).replace("\r\n", "\n"), maxsplit=1)
        if len(reasons) < 2:
            continue
        text = _HEADS.sub("\n", _CONTINUED.sub(" ", reasons[1]))
        kept = list(_paragraphs(text))
        if count_words(kept) >= WORDS:
            yield Document(blob.path, kept)


def _paragraphs(text: str) -> Iterator[str]:
    cut = False
    for raw in text.split("\n"):
        line = tidy(raw)
        begins_cut, cut = cut, len(line) > 20 and line[-1] not in ".:!?)]”’\"'"
        while number := _NUMBER.match(line):
            line = line[number.end() :]
        line = _CITED.sub("", line).lstrip(MARKS)
        if not begins_cut and is_korean_prose(line) and not _SHORTENED.search(line):
            yield line
