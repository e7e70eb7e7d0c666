"""German Wikipedia and Klexikon as plain text: a sentence a line, an empty line
between paragraphs, `==` before headings."""

import re
from collections.abc import Iterable, Iterator

from ..prose import is_prose, tidy
from ..source import Blob, Document

_END = re.compile(
    r"^=+ *(?:Siehe auch|Literatur|Weblinks|Einzelnachweise|Anmerkungen|Quellen|"
    r"Belege|Fußnoten|Diskografie|Filmografie)\b",
    re.MULTILINE,
)
_QUOTES = "“‘«‹"  # closing quotes of German, which `is_prose` does not know


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document an article, without headings, lists and what follows the text."""
    for blob in blobs:
        text = _END.split(blob.text.replace("\r\n", "\n"), maxsplit=1)[0]
        blocks = re.split(r"\n\s*\n|^=.*$", text, flags=re.MULTILINE)
        lines = [tidy(block) for block in blocks]
        kept = [line for line in lines if is_prose(line.rstrip(_QUOTES), words=8)]
        yield Document(blob.path.removeprefix("data/raw/"), kept)
