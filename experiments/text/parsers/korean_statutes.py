"""Korean acts in Markdown: the sentences of their articles."""

import re
from collections.abc import Iterable, Iterator

from ..korean_prose import count_words, is_korean_prose
from ..prose import markdown_paragraphs
from ..source import Blob, Document

_NUMBER = re.compile(
    r"^\s*(?:[①-⑳㉑-㉟]|\d{1,2}(?:의\d+)?\.|[가-하]\.|제\d+조(?:의\d+)?(?= ?\()|"
    r"\([^()]*\))\s*"
)
_NOTES = re.compile(
    r"\s*[<\[](?:개정|신설|전문개정|본조신설|제목개정|시행일)[^>\]]*[>\]]"
)
_AMENDING = re.compile(
    r"다음과 같이 (?:개정|한다)|중 [“\"]|을 각각|로 한다\.$|시행한다\.$|삭제"
)


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document an act."""
    for blob in blobs:
        text = _NOTES.sub("", blob.text)
        kept = []
        for paragraph in markdown_paragraphs(text):
            line = paragraph
            while number := _NUMBER.match(line):
                line = line[number.end() :]
            if is_korean_prose(line, words=7) and not _AMENDING.search(line):
                kept.append(line)
        if count_words(kept) >= 100:
            yield Document(blob.path, kept)
