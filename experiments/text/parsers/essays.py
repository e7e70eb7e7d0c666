"""Essays on the architecture of software, HTML pages."""

import re
from collections.abc import Iterable, Iterator

from ..prose import html_paragraphs, is_prose
from ..source import Blob, Document

_BODY = re.compile(r"<body.*?</body>", re.DOTALL | re.IGNORECASE)


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document an essay."""
    for blob in blobs:
        body = _BODY.search(blob.text)
        lines = html_paragraphs(body[0] if body else blob.text)
        kept = [line for line in lines if is_prose(line, words=8)]
        if sum(len(line.split()) for line in kept) >= 300:
            yield Document(blob.path, kept)
