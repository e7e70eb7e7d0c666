"""Word pieces (Wu et al. 2016, section 4.1): a word as a few numbers, split as by an
uncased BERT (Devlin et al. 2019).

A piece that does not begin a part of a word begins with ##.
"""

import unicodedata
from collections.abc import Mapping

UNKNOWN, FIRST, LAST = "[UNK]", "[CLS]", "[SEP]"
# Longer parts are unknown as a whole, and longer words are cut: a word of a stranger
# may be a whole file.
MAX_PART, MAX_PIECES = 100, 64
_DROPPED = ("Mn", "Cc", "Cf", "Co")  # accents, control characters, private use
# Ideographs, which are pieces by themselves (Unicode blocks).
_IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


def pieces_of(word: str, numbers: Mapping[str, int]) -> list[int]:
    """Return the numbers of a word's pieces, at most MAX_PIECES. A word of white space
    and control characters has no pieces.

    Args:
        word: Any string.
        numbers: The number of each piece, with [UNK].
    """
    whole = numbers.get(word)
    if whole is not None and word.isalpha() and word.isascii() and word.islower():
        return [whole]
    found: list[int] = []
    for part in _parts(normalise(word[: MAX_PART * MAX_PIECES])):
        found += _longest_first(part, numbers)
        if len(found) >= MAX_PIECES:
            break
    return found[:MAX_PIECES]


def normalise(word: str) -> str:
    """Return a word without case and accents."""
    if word.isascii():
        word = word.lower()
        return word if word.isprintable() else _without(word)
    # Letter by letter, as BERT: the "Σ" at the end of a word is no special letter.
    lower = "".join(c.lower() for c in word)
    return _without(unicodedata.normalize("NFD", lower))


def _without(word: str) -> str:
    return "".join(
        c for c in word if c.isspace() or unicodedata.category(c) not in _DROPPED
    )


def _parts(word: str) -> list[str]:
    """Split a word at white space, and before and after punctuation and ideographs."""
    if word.isascii() and word.isalnum():
        return [word]
    parts: list[str] = []
    begins = True
    for c in word:
        if c.isspace():
            begins = True
        elif _stands_alone(c):
            parts.append(c)
            begins = True
        elif begins:
            parts.append(c)
            begins = False
        else:
            parts[-1] += c
    return parts


def _stands_alone(c: str) -> bool:
    if c.isascii():
        return not c.isalnum()
    if unicodedata.category(c)[0] == "P":
        return True
    return any(first <= ord(c) <= last for first, last in _IDEOGRAPHS)


def _longest_first(part: str, numbers: Mapping[str, int]) -> list[int]:
    """Return the numbers of pieces: from the left, always the longest that fits."""
    unknown = [numbers[UNKNOWN]]
    if len(part) > MAX_PART:
        return unknown
    found: list[int] = []
    start, prefix = 0, ""
    while start < len(part):
        for end in range(len(part), start, -1):
            number = numbers.get(prefix + part[start:end])
            if number is not None:
                break
        else:
            return unknown
        found.append(number)
        start, prefix = end, "##"
    return found
