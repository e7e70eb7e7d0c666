"""Vectors of whole corpora, in files: each token once, and verified.

    text (its own room) -> biLM -> rows -> shards, one file each

plan.py says which shards there are, worker.py makes them, run.py and processes.py say
who does. reader.py reads them, and verify.py proves that they are right.
"""

from ..text import Reading
from .export import export
from .model import Computing
from .planning import Options, make_plan
from .reader import Corpus
from .reader import Corpus as open  # noqa: A004  (read as spacy_elmo.embed.open)
from .run import run
from .verify import repair, verify

__all__ = [
    "Computing",
    "Corpus",
    "Options",
    "Reading",
    "export",
    "make_plan",
    "open",
    "repair",
    "run",
    "verify",
]
