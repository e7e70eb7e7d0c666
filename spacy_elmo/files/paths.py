"""Paths as users write them."""

from contextlib import suppress
from pathlib import Path


def named_path(path: str | Path) -> Path:
    """Return the path that a user named, in a configuration or a call. A `~` at its
    beginning is the home folder, as in a shell."""
    with suppress(RuntimeError):  # there is no such user
        return Path(path).expanduser()
    return Path(path)
