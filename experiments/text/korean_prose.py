"""What the parsers of Korean sources share."""

import re

_SENTENCE = re.compile(r"[다요까오죠네라자음임함됨지][.!?…][\"'”’»)\]」』]*$")
_HANGUL = re.compile(r"[가-힣]+")
_JUNK = re.compile(r"[{}<>|\\=_\ufffd]|https?:|www\.|\[\[|\]\]|formula")
_GLUED = re.compile(r"(?<=[가-힣][.!?])(?=[가-힣「『“‘])")
MARKS = "*-›□▷•∙○●■◦·※ "  # at the beginning of list items


def is_korean_prose(line: str, *, words: int = 5, hangul: float = 0.6) -> bool:
    """Whether a line is sentences: enough words, an end as Korean sentences have it,
    mostly Hangul, no mark-up."""
    characters = len(line) - line.count(" ")
    return (
        line.count(" ") + 1 >= words
        and _SENTENCE.search(line) is not None
        and sum(map(len, _HANGUL.findall(line))) >= hangul * characters
        and not _JUNK.search(line)
    )


def unglued(text: str) -> list[str]:
    """Paragraphs that were run together: "...했습니다.그동안..."."""
    return _GLUED.split(text)


def count_words(lines: list[str]) -> int:
    """Words (eojeol) of lines."""
    return sum(line.count(" ") + 1 for line in lines)
