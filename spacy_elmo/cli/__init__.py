"""`spacy elmo ...`: a file for each command, and what benchmarks measure with.

The commands need spaCy, and are imported when they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .commands import app as app


def __getattr__(name: str) -> Any:
    if name == "app":
        return import_module(".commands", __name__).app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
