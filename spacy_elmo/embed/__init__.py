"""Vectors of whole corpora, in files: each token once, and verified.

    text (its own room) -> biLM -> rows -> shards, one file each

plan.py says which shards there are, worker.py makes them, runs.py and processes.py say
who does. reader.py reads them, and verification.py proves that they are right.
"""

from ..text import Reading
from .estimate import readable
from .model import Computing
from .plan import Plan, read_plan
from .planning import Options, make_plan
from .progress import Progress, rounding_error
from .reader import Corpus, EmbeddedDocument, EmbeddedSentence
from .reader import Corpus as open  # noqa: A004  (read as spacy_elmo.embed.open)
from .runs import Terminated, run
from .sinks import Shard, Sink, export
from .verification import Report, repair, verify

__all__ = [
    "Computing", "Corpus", "EmbeddedDocument", "EmbeddedSentence", "Options", "Plan",
    "Progress", "Reading", "Report", "Shard", "Sink", "Terminated", "export",
    "make_plan", "open", "read_plan", "readable", "repair", "rounding_error", "run",
    "verify",
]  # fmt: skip
