"""Reviews of films by their viewers, the reviews of a film in one JSON file."""

import json
import re
from collections.abc import Iterable, Iterator

from ..korean_prose import count_words
from ..prose import tidy
from ..source import Blob, Document

_HANGUL = re.compile(r"[가-힣]")
_NOISE = re.compile(r"(.)\1{3,}|[ㄱ-ㅎㅏ-ㅣ]{4,}|https?:|\ufffd|&\w+;")


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a film: its reviews of at least six words."""
    for blob in blobs:
        kept = []
        for review in json.loads(blob.data):
            line = tidy(review.get("review") or "")
            hangul = len(_HANGUL.findall(line))
            mostly = hangul >= 0.6 * len(line.replace(" ", ""))
            if mostly and line.count(" ") >= 5 and not _NOISE.search(line):
                kept.append(line)
        if count_words(kept) >= 30:
            yield Document(blob.path, kept)
