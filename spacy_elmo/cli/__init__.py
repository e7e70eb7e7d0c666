"""`python -m spacy elmo ...`: one file a command.

spaCy imports this module for each of its commands, so nothing heavy is imported here;
every command imports what it needs when it runs.
"""

# Each command adds itself to the group when it is imported.
from . import (
    benchmark,
    convert,
    curve,
    embed,
    info,
    init_config,
    mix,
    models,
    neighbours,
    perplexity,
    prepare,
    pretrain,
    vocab_cache,
)
from .group import app

__all__ = [
    "app",
    "benchmark",
    "convert",
    "curve",
    "embed",
    "info",
    "init_config",
    "mix",
    "models",
    "neighbours",
    "perplexity",
    "prepare",
    "pretrain",
    "vocab_cache",
]
