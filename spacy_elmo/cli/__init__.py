"""`python -m spacy elmo ...`.

spaCy imports this module for each of its commands, so nothing heavy is imported here;
every command imports what it needs when it runs.
"""

# Each command adds itself to the group when it is imported.
from . import (  # noqa: F401
    benchmark,
    embed,
    explore,
    init_config,
    models,
    pretrain,
)
from .group import app

__all__ = ["app"]
