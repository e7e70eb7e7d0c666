"""The World Factbook: the fields of a country that are sentences."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..prose import is_prose, tidy
from ..source import Blob, Document


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a country."""
    for blob in blobs:
        country = json.loads(blob.data)
        lines = [
            piece
            for text in _texts(country)
            for line in re.split(r"<br\s*/?>|</?p>|\n", text)
            if is_prose(piece := tidy(re.sub(r"<[^>]*>", "", line)), words=8)
        ]
        yield Document(blob.path, lines)


def _texts(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "text" and isinstance(value, str):
                yield value
            else:
                yield from _texts(value)
