"""Locks that end with the process that holds them, however it ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..errors import Errors
from .atomic import write_files

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def lock(file: IO[bytes] | int, *, wait: bool = True) -> bool | None:
    """Lock an open file or folder until it is closed.

    Args:
        file: The file, or a descriptor.
        wait: Whether to wait for another process that holds the lock.

    Returns:
        True if it is locked now, False if another process holds it, None where the
        system or the disk has no locks (Windows, some network disks).
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Create the folder if needed, and lock it until the block, or the process, ends.

    Raises:
        ValueError: [EL124] Another process holds it.
        OSError: [EL013] It can't be made.
    """
    write_files(folder, {})
    if fcntl is None:  # Windows opens no folders
        yield
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        if lock(opened, wait=False) is False:
            raise Errors.EL124(path=folder)
        yield
    finally:
        os.close(opened)
