"""Text -> tokens -> shards -> streams, in NumPy. All commands read text here.

kinds.py, unpack.py          the kind of text in a file; compressed files
records.py, contents.py      a file -> records -> documents: text, or tokens
tokens.py                    text -> sentences of tokens (spaCy's tokenizers)
reading.py                   all of these together: for training, embed and explore
corpus.py                    numbered words and running text
preparation.py               text files -> shards on disk
shards.py                    the format of the shards
streams.py                   a corpus -> batches of steps
"""

from .contents import Content
from .corpus import BOS_ID, EOS_ID, SPECIALS, UNK_ID, Corpus, build_corpus, check_vocab
from .kinds import KINDS, TextFile, describe, files_of, suffixes_of
from .preparation import Request, move, prepare, refuse_to_write_over
from .reading import Reader, read_lines, read_sentences, read_spans
from .records import MAX_PIECE, Source, open_source
from .shards import is_prepared, manifest_hash, open_corpus, read_manifest
from .streams import Batch, Streams, read_ahead, token_reader
from .tokens import MAX_TOKEN, Reading, Sentence, hash_of_pipeline, tokenizer_of
from .unpack import UNPACK

__all__ = [
    "BOS_ID", "EOS_ID", "KINDS", "MAX_PIECE", "MAX_TOKEN", "SPECIALS", "UNK_ID",
    "UNPACK",
    "Batch", "Content", "Corpus", "Reader", "Reading", "Request", "Sentence", "Source",
    "Streams", "TextFile", "build_corpus", "check_vocab", "describe", "files_of",
    "hash_of_pipeline", "is_prepared", "manifest_hash", "move",
    "open_corpus", "open_source", "prepare", "read_ahead", "read_lines",
    "read_manifest", "read_sentences", "read_spans",
    "refuse_to_write_over", "suffixes_of", "token_reader", "tokenizer_of",
]  # fmt: skip
