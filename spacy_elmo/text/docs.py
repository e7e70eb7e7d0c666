"""Docs of `.spacy` files from others."""

import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.tokens import Doc, DocBin

CHUNK = 1 << 20  # bytes that are unpacked at once
MAX_DOCS = 1 << 30  # bytes of the Docs of a file, which spaCy reads at once


def read_docs(blocks: Iterable[bytes]) -> "DocBin":
    """Return the Docs of a `.spacy` file, which is given in blocks. What it takes is
    counted before spaCy unpacks it. Its errors, and those of `docs_of`, are of any
    kind: use `files.parsing`."""
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


def docs_of(docs: "DocBin") -> "Iterator[Doc]":
    """Yield Docs, with a vocabulary of their own."""
    from spacy.vocab import Vocab

    yield from docs.get_docs(Vocab())
