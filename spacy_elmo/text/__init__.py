"""Text -> tokens -> shards -> streams, in NumPy: what a biLM is trained on.

reading.py, unpack.py     text files -> sentences of tokens (spaCy's tokenizers)
docs.py                   `.spacy` files from others
corpus.py                 numbered words and running text
preparation.py, parts.py  text files -> shards on disk
shards.py                 the format of the shards
streams.py                a corpus -> batches of steps
"""

from .corpus import (
    BOS_ID,
    EOS_ID,
    SPECIALS,
    UNK_ID,
    Corpus,
    build_corpus,
    check_vocab,
)
from .docs import read_docs, sentences_of
from .preparation import Request, move, prepare, refuse_to_write_over
from .reading import (
    MAX_TOKEN,
    kind_of,
    read_lines,
    read_sentences,
    short_words,
    tokenize_with,
)
from .shards import is_prepared, manifest_hash, open_corpus, read_manifest
from .streams import Batch, Streams, read_ahead, token_reader
from .unpack import CHUNK, DAMAGED, UNPACK

__all__ = [
    "BOS_ID", "CHUNK", "DAMAGED", "EOS_ID", "MAX_TOKEN", "SPECIALS", "UNK_ID", "UNPACK",
    "Batch", "Corpus", "Request", "Streams", "build_corpus", "check_vocab",
    "is_prepared", "kind_of", "manifest_hash", "move", "open_corpus", "prepare",
    "read_ahead", "read_docs", "read_lines", "read_manifest", "read_sentences",
    "refuse_to_write_over", "sentences_of", "short_words", "token_reader",
    "tokenize_with",
]  # fmt: skip
