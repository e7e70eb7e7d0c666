"""A folder that one process at a time may write to."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import Errors
from .atomic import write_files

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Make a folder, and hold it as long as this lasts, or the process lives.

    Nothing is held where the system or the disk has no such locks (Windows, some
    network disks).

    Raises:
        ValueError: [EL124] Another process holds it.
        OSError: [EL013] It can't be made.
    """
    write_files(folder, {})
    if fcntl is None:
        yield
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(Errors.EL124.format(path=folder)) from error
        except OSError:
            pass
        yield
    finally:
        os.close(opened)
