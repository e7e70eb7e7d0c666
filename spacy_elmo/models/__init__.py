"""The installed biLMs: those in this package, one for each language and all with the
same sizes, and those of other packages."""

from .model_card import (
    ancestors,
    name_and_version,
    read_card,
    read_page,
    started_from,
    tokens_read,
)
from .packages import (
    FOLDER,
    LANG,
    MODELS,
    PACKAGES,
    Installed,
    find,
    folder,
    installed,
    load,
    locate,
    sizes,
)

__all__ = [
    "FOLDER", "LANG", "MODELS", "PACKAGES", "Installed", "ancestors", "find", "folder",
    "installed", "load", "locate", "name_and_version", "read_card", "read_page",
    "sizes", "started_from", "tokens_read",
]  # fmt: skip
