"""Vectors of whole corpora, in files: each token once, and verified.

    inputs -> records -> sentences -> biLM -> rows -> shards, one file each

streams.py, inputs.py, sentences.py read text of any size, a little at a time; model.py
and keep.py make rows of it; shards.py is the worker that writes a shard. plan.py says
which shards there are, run.py and processes.py who makes them. reader.py reads them and
verify.py proves that they are right.
"""

from pathlib import Path

from .export import export
from .planning import Options, make_plan
from .reader import Corpus
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


def open(output: str | Path) -> Corpus:  # noqa: A001  (read as spacy_elmo.embed.open)
    """Open a folder of vectors, finished or not.

    Args:
        output: The folder.

    Raises:
        FileNotFoundError: [EL214] if it has no plan.
        ValueError: [EL202] if the plan is damaged, [EL208] if a shard is.
    """
    return Corpus(output)
