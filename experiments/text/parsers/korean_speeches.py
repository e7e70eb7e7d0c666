"""Speeches of Korean presidents, in a table of an SQLite database."""

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..korean_prose import count_words, is_korean_prose, unglued
from ..prose import tidy
from ..source import Blob, Document

FIRST_YEAR = 1961  # earlier ones are in an older spelling
_QUERY = "select division_number, date, speech_text from base order by division_number"


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a speech, from `FIRST_YEAR` on."""
    for blob in blobs:
        for number, date, text in _rows(blob.data):
            if int((date or "0")[:4]) < FIRST_YEAR:
                continue
            pieces = (tidy(x) for line in text.split("\n") for x in unglued(line))
            kept = [line for line in pieces if is_korean_prose(line)]
            if count_words(kept) >= 50:
                yield Document(str(number), kept)


def _rows(data: bytes) -> list[tuple[str, str | None, str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speeches.db"
        path.write_bytes(data)
        database = sqlite3.connect(path)
        try:
            return database.execute(_QUERY).fetchall()
        finally:
            database.close()
