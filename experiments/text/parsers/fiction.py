"""Tales and entries of the SCP wiki: HTML in JSON."""

import json
import re
from collections.abc import Iterable, Iterator

from ..prose import html_paragraphs
from ..source import Blob, Document

_JUNK = re.compile(
    r"rating:|^«|»$|cite this page|licens|wikidot|https?://|scp-wiki|^by\b|discussion|"
    r"█|\[\[|^image|adult content|author ?post",
    re.IGNORECASE,
)


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a page."""
    for blob in blobs:
        for name, page in sorted(json.loads(blob.data).items()):
            lines = html_paragraphs(page.get("raw_content") or "")
            kept = [
                line
                for line in lines
                if re.search(r"[.!?…][\"'”’)]*$", line) and not _JUNK.search(line)
            ]
            if sum(len(line.split()) for line in kept) >= 100:
                yield Document(f"{blob.path} {name}", kept)
