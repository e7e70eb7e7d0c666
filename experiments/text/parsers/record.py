"""The Congressional Record: what members say, from text of 72 columns."""

import re
from collections.abc import Iterable, Iterator

from ..prose import is_prose, tidy
from ..source import Blob, Document

_PIECE = "From the Congressional Record Online"
_PAGE = re.compile(
    r"^\s*\[\[Page .*?\]\]\s*$|^\s*\[Pages? .*\]\s*$|^\x0c", re.MULTILINE
)
_SPEAKER = re.compile(
    r"^(?:Mr|Mrs|Ms|Miss|Dr)\. (?:[A-Z][A-Za-z'’]*[A-Z'’-]{2,}\.?,? ?)+"
    r"(?:(?:Jr|Sr)\.,? ?)?(?:of (?:[A-Z][a-z]+ ?){1,3})?\. "
)
_FORMAL = re.compile(
    r"^(?:The (?:PRESIDING|SPEAKER|CHAIR|Acting|VICE|PRESIDENT|SENATE|Clerk|clerk|"
    r"legislative|bill clerk|yeas|nays|result|motion|question|amendment|resolution)|"
    r"Sec\.|SEC\.|\(|S\. |H\. ?R|H\.J|S\.J|EC-|By M|SA \d|Amendment|Pursuant|"
    r"Under clause|"
    r"Whereas|Resolved|There (?:was|being) no|Executive session|A bill|An act|"
    r"Ordered to be|The following|Nomination|Mr\. Speaker, I yield|I yield|"
    r"Committee on|"
    r"Be it|At the end|On page|In lieu|Strike|``\()"
)
_FORMULA = re.compile(
    r"unanimous consent|Had I been (?:present|here)|include in the Record|"
    r"two-thirds being|"
    r"would have voted|revise and extend|yield (?:back|myself|the floor|such time|\d|"
    r"\w+ "
    r"minutes)|[Rr]oll ?[Cc]all|yeas and nays|suggest the absence|ask for the|"
    r"motion to (?:table|"
    r"reconsider|suspend)|I reserve the balance|pursuant to|\d{3,}[-–]\d|Page [HSE]\d|"
    r"Stat\.|U\.S\.C\.|\(\d\)|\([a-z]\)|^Mr\. (?:Speaker|President)[.,]$|"
    r"demand a recorded"
)


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document an item of the Record that has at least 80 words of speech."""
    for blob in blobs:
        pieces = _PAGE.sub("", blob.text.replace("\r\n", "\n")).split(_PIECE)
        for number, piece in enumerate(pieces):
            if (
                "Daily Digest" in pieces[number - 1][-200:]
                or "Committee Meetings" in piece[:300]
            ):
                continue
            kept = [line for block in _blocks(piece) if (line := _speech(block))]
            if sum(len(line.split()) for line in kept) >= 80:
                yield Document(f"{blob.path} {number}", kept)


def _blocks(piece: str) -> Iterator[str]:
    """Paragraphs: a first line set in by two, the others not at all."""
    held: list[str] = []
    for line in piece.split("\n"):
        if re.match(r"  \S", line):
            yield "\n".join(held)
            held = [line]
        elif held and re.match(r"\S", line):
            held.append(line)
        elif line.strip():
            yield "\n".join(held)
            held = []
    yield "\n".join(held)


def _speech(block: str) -> str:
    text = re.sub(r"(\w)-\n(?=\w)", r"\1-", block)
    line = _SPEAKER.sub("", tidy(text)).replace("``", '"').replace("''", '"')
    if _FORMAL.match(line) or _FORMULA.search(line):
        return ""
    return line if is_prose(line, words=12) else ""
