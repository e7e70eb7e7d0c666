"""Speeches of states in the United Nations General Debate, as plain text."""

import re
from collections.abc import Iterable, Iterator

from ..prose import is_prose, tidy
from ..source import Blob, Document

_NUMBER = re.compile(r"^\s*\d{1,3}\s*\.\s+")
_PRINTERS = re.compile(r"^\s*(?:\d{1,2}-\d{5}\b.*|A/\d\d/PV\.\d+.*|\d{1,3}|\W*)\s*$")
_CUT = re.compile(r"\b(\w+)-\s+(?!(?:and|or|to|nor)\b)([a-z]+)")
_NOTE = re.compile(r" ?\((?:see [A-Z]/|A/|S/|spoke in|interpretation)[^()]*\)")
_BROKEN = re.compile(r"[a-z][:‘;][a-z]|[a-z]{2}[A-Z][a-z]|\w’\s\w’")


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a speech; lines that were wrapped are joined again."""
    for blob in blobs:
        text = blob.text.replace("\r\n", "\n").replace("\r", "\n")
        lines = [line for line in text.split("\n") if not _PRINTERS.match(line)]
        lengths = sorted(len(line) for line in lines)
        wrapped = len(lines) > 30 and lengths[-len(lines) // 20] < 120
        blocks = _unwrapped(lines) if wrapped else iter(lines)
        known = set(re.findall(r"[a-z]+", text.lower()))
        kept = [line for block in blocks if (line := _line(block, known))]
        if kept:
            yield Document(blob.path, kept)


def _line(block: str, known: set[str]) -> str:
    """One line; a word cut at the end of a line is whole again, and keeps its hyphen
    unless the speech has it without."""

    def mend(cut: re.Match[str]) -> str:
        whole = cut[1] + cut[2]
        return whole if whole.lower() in known else f"{cut[1]}-{cut[2]}"

    line = tidy(_NUMBER.sub("", block))
    line = _CUT.sub(mend, line) if "- " in line else line
    line = re.sub(r"\*\*|^[>#\s]+|^\W+\s", "", _NOTE.sub("", line))
    return line if is_prose(line) and not _BROKEN.search(line) else ""


def _unwrapped(lines: list[str]) -> Iterator[str]:
    """Paragraphs: a line that ends a sentence and is short, or is followed by one that
    is set in, ends them."""
    held: list[str] = []
    usual = sorted(len(line.rstrip()) for line in lines)[len(lines) // 2]
    for number, line in enumerate(lines):
        held.append(line.rstrip())
        after = lines[number + 1] if number + 1 < len(lines) else ""
        ends = re.search(r"[.!?:][\"'”’)]*$", held[-1])
        if ends and (len(held[-1]) < 0.75 * usual or after[:1] in " \t"):
            yield "\n".join(held)
            held = []
    yield "\n".join(held)
