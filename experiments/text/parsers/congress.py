"""Press releases of members of the US Congress, objects with a field `text`."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..prose import is_english, is_prose, tidy
from ..source import Blob, Document

_END = re.compile(r"^[\s*]*(?:#\s?#\s?#|-\s?30\s?-|# #)|#{3}", re.MULTILINE)
_SHARED = re.compile(
    r"next article|previous article|^share\b|^print\b|^email\b|tweet|@|subscribe|"
    r"click here|for immediate release|^contact|press contact|media contact|"
    r"bill text|text of the (?:bill|letter)|full text|one[- ]pager|available here|"
    r"can be (?:found|read|viewed|accessed|downloaded)|watch (?:here|the)|listen here|"
    r"permalink|^\(?as prepared|\.\.\.$|read (?:more|the)|www\.|https?:|"
    r"(?:found|viewed|watch|read|available) (?:here|online)|M E M O|\w\?\w|&amp;",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"^[\W\d]*(?:[A-Z][\w.,'’ ]{2,40}?(?:,? ?\(?D\.?C\.?\)?|, ?[A-Z][\w.]{1,8})?\)?)"
    r"\s*(?:[-–—]{1,3}|\u2015|\x97)\s+(?=[A-Z“\"])"
)
_DATE = re.compile(r"^\d\d\.\d\d\.\d\d\s*")


def choose(blobs: Iterable[Blob]) -> Iterator[Blob]:
    """Those of the files that hold a release which no earlier one holds."""
    seen: set[str] = set()
    for blob in blobs:
        urls = {release["url"] for release in _releases(blob)}
        if urls - seen:
            seen |= urls
            yield blob


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a release, by its address; later copies are left out."""
    seen: set[str] = set()
    for blob in blobs:
        for release in _releases(blob):
            if release["url"] in seen:
                continue
            seen.add(release["url"])
            kept = list(_paragraphs(release["text"], release.get("title") or ""))
            if sum(len(line.split()) for line in kept) >= 50 and is_english(kept):
                yield Document(release["url"], kept)


def _releases(blob: Blob) -> Iterator[dict[str, Any]]:
    for line in blob.data.splitlines():
        try:
            release = json.loads(line)
        except ValueError:
            continue
        if release.get("text") and release.get("url"):
            yield release


def _paragraphs(text: str, title: str) -> Iterator[str]:
    text = _END.split(text, maxsplit=1)[0].replace("\xa0", " ")
    for block in re.split(r"\s*\n\s*\n\s*|\r\n\s*", text):
        line = _DATE.sub("", tidy(block)).removeprefix(tidy(title)).strip()
        line = _PLACE.sub("", line, count=1)
        if is_prose(line, words=8) and not _SHARED.search(line):
            yield line
