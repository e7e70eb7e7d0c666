"""What the parsers of debates share."""

from ..prose import is_prose

_QUOTES = "“‘«‹"  # closing quotes of German, which `is_prose` does not know
WORDS = 8  # shorter paragraphs of a debate are thanks, calls and votes


def is_speech(line: str) -> bool:
    """Whether a paragraph of a debate is sentences and not a formula."""
    return is_prose(line.rstrip(_QUOTES), words=WORDS)
