"""Text -> tokens -> shards -> streams, in NumPy: one reader for all that reads text.

files.py, unpack.py       which kind of text a file holds; packed files
records.py, contents.py   a file -> documents: text, or tokens
tokens.py                 text -> sentences of tokens (spaCy's tokenizers)
reading.py                all of these, joined
corpus.py                 numbered words and running text
prepare.py, parts.py      files of text -> shards on disk
shards.py                 the format of the shards
streams.py                a corpus -> batches of steps
"""

from .files import KINDS, TextFile, describe, files_of, suffixes_of
from .reading import (
    Part,
    Reader,
    Reading,
    read_contents,
    read_lines,
    read_sentences,
    read_spans,
)
from .records import MAX_PIECE, Source, open_source
from .tokens import MAX_TOKEN, Sentence, hash_of_pipeline, tokenizer_of

__all__ = [
    "KINDS", "MAX_PIECE", "MAX_TOKEN", "Part", "Reader", "Reading", "Sentence",
    "Source", "TextFile", "describe", "files_of", "hash_of_pipeline", "open_source",
    "read_contents", "read_lines", "read_sentences", "read_spans", "suffixes_of",
    "tokenizer_of",
]  # fmt: skip
