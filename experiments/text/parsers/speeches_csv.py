"""Speeches in tables: of the Brazilian Câmara dos Deputados and of an inquiry of the
Senado."""

import csv
import io
import re
from collections.abc import Iterable, Iterator

from ..prose import tidy
from ..source import Blob, Document
from .speech import is_speech

_COLUMNS = ("transcricao", "fala")
_LONGEST = 4 << 20  # characters of a field: no file is larger
# The name, party and state of the speaker, and how the speech was made.
_SPEAKER = re.compile(r"^(?:O|A) SRA?\. .{2,200}?\) ?[-–—] ?")
_NOTE = re.compile(
    r"\([^()]*(?:[Pp]ausa|[Pp]almas|[Rr]isos|microfone|ininteligível)[^()]*\)"
)


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a row, without the speaker's name and notes."""
    csv.field_size_limit(_LONGEST)
    for blob in blobs:
        text = blob.text.replace("\0", "")
        comma = ";" if text.partition("\n")[0].count(";") else ","
        for number, row in enumerate(
            csv.DictReader(io.StringIO(text), delimiter=comma)
        ):
            said = next((row[name] for name in _COLUMNS if row.get(name)), "") or ""
            lines = [tidy(_NOTE.sub("", line)) for line in said.split("\n")]
            kept = [line for each in lines if is_speech(line := _SPEAKER.sub("", each))]
            yield Document(f"{blob.path} {number}", kept)
