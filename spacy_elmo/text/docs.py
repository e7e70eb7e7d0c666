"""Docs of `.spacy` files from others."""

import zlib
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.tokens import DocBin, Span

CHUNK = 1 << 20  # bytes that are read, and unpacked, at once
MAX_DOCS = 1 << 30  # bytes of the Docs of a file, which spaCy reads at once


def read_docs(blocks: Iterable[bytes]) -> "DocBin":
    """Return the Docs of a `.spacy` file, which is given in blocks. What it takes is
    counted before spaCy unpacks it. Its errors, and those of `DocBin.get_docs`, are of
    any kind: use `files.coded`."""
    from spacy.tokens import DocBin

    unpack, size, read = zlib.decompressobj(), 0, bytearray()
    for block in blocks:
        read += block
        left = block
        while left:
            size += len(unpack.decompress(left, CHUNK))
            left = unpack.unconsumed_tail
            if size > MAX_DOCS:
                raise ValueError(f"its Docs take more than {MAX_DOCS:,} bytes")
    return DocBin().from_bytes(bytes(read))


def sentences_of(file: IO[bytes]) -> Iterator[tuple[int, "Span"]]:
    """Yield the number of each Doc of a `.spacy` file, from 1, with every sentence, or
    with all of it where no boundaries are set. Its errors are those of `read_docs`."""
    from spacy.vocab import Vocab

    docs = read_docs(iter(lambda: file.read(CHUNK), b""))
    for number, doc in enumerate(docs.get_docs(Vocab()), start=1):
        for sentence in doc.sents if doc.has_annotation("SENT_START") else [doc[:]]:
            yield number, sentence
