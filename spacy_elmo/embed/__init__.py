"""Vectors of whole corpora, in files: each token once, and verified.

    text (its own room) -> biLM -> rows -> shards, one safetensors file each

plan.py, planning.py          what the bytes depend on, written before any vector
worker.py, model.py           how one shard is made
runs.py                       who makes the shards: one process, several, Ray
folder.py, progress.py        what is finished, and how far the rest is
shard.py, reader.py           the file of a shard, and reading whole folders
verification.py               proof that the vectors are those of the text
sinks/                        exports to other formats
older.py                      formats that version 0.2 stored
"""

from ..processes import Terminated
from ..text import Reading
from .model import Computing
from .plan import Plan, read_plan
from .planning import Options, make_plan, readable
from .progress import Progress, rounding_error
from .reader import Corpus, EmbeddedDocument, EmbeddedSentence
from .reader import Corpus as open  # noqa: A004  (read as spacy_elmo.embed.open)
from .runs import run
from .shard import Shard
from .sinks import Sink, export
from .verification import Report, repair, verify

__all__ = [
    "Computing", "Corpus", "EmbeddedDocument", "EmbeddedSentence", "Options", "Plan",
    "Progress", "Reading", "Report", "Shard", "Sink", "Terminated", "export",
    "make_plan", "open", "read_plan", "readable", "repair", "rounding_error", "run",
    "verify",
]  # fmt: skip
