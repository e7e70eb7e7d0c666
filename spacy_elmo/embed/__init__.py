"""Vectors of whole corpora, in files: each token once, and verified.

    inputs -> records -> sentences -> biLM -> rows -> shards, one file each

plan.py says which shards there are, worker.py makes them, run.py and processes.py say
who does. reader.py reads them, and verify.py proves that they are right.
"""

from .export import export
from .planning import Options, make_plan
from .reader import Corpus
from .reader import Corpus as open  # noqa: A004  (read as spacy_elmo.embed.open)
from .run import run
from .verify import repair, verify

__all__ = [
    "Corpus",
    "Options",
    "export",
    "make_plan",
    "open",
    "repair",
    "run",
    "verify",
]
