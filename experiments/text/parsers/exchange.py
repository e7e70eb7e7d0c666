"""Questions and answers of Stack Exchange sites: the bodies in their `Posts.xml`."""

import re
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from ..prose import html_paragraphs, is_prose, tidy
from ..source import Blob, Document

_MATHS = re.compile(r"\$|\\\w+\{|\\begin")


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a question, with its title and its answers."""
    for blob in blobs:
        threads: dict[str, list[str]] = {}
        for row in ElementTree.fromstring(blob.data).iter("row"):
            if row.get("PostTypeId") not in ("1", "2"):
                continue
            thread = row.get("ParentId") or row.get("Id") or ""
            title, body = tidy(row.get("Title") or ""), row.get("Body") or ""
            lines = html_paragraphs(body)
            if title.endswith("?"):
                lines.insert(0, title)
            kept = (x for x in lines if is_prose(x, words=4) and not _MATHS.search(x))
            threads.setdefault(thread, []).extend(kept)
        for thread, paragraphs in threads.items():
            if sum(len(line.split()) for line in paragraphs) >= 20:
                yield Document(f"{blob.repository}/{blob.path} {thread}", paragraphs)
