"""The folder that vectors are written to.

A shard is done when its file is there under its final name. What is unfinished lies in
a folder of the process that writes it, until it is moved.
"""

import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ..errors import Errors
from ..files import sync_folder

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SHARDS, UNFINISHED = "shards", ".unfinished"
PROGRESS, LOCK = "progress.json", "lock"
_SHARD_NAME = re.compile(r"\d{8}(-\d{6})?\.[\w.]+")


def names_of_shards(output: Path, folder: str = SHARDS) -> set[str]:
    """Return the names of all files that are where shards are, and named as those."""
    try:
        names = [entry.name for entry in os.scandir(output / folder)]
        return {name for name in names if _SHARD_NAME.fullmatch(name)}
    except FileNotFoundError:
        return set()


def bytes_of_jobs(output: Path, jobs: Collection[int]) -> int:
    """Return the bytes of the shards of some jobs that are there."""
    names, wanted = names_of_shards(output), set(jobs)
    mine = [name for name in names if int(name[:8]) in wanted]
    return sum((output / SHARDS / name).stat().st_size for name in mine)


def publish(aside: Path, path: Path, *, replace: bool = True) -> None:
    """Move a finished file to its final name, down to the disk. What is there stays if
    `replace` is not set."""
    with aside.open("rb+") as written:
        os.fsync(written.fileno())
    if replace or not _link(aside, path):
        os.replace(aside, path)
    sync_folder(path.parent)


def _link(aside: Path, path: Path) -> bool:
    """Link a file to a name that may be there. Return whether such a file is there."""
    try:
        os.link(aside, path)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise
        return path.exists()  # a file system without links
    return True


class Workspace:
    """A folder for what one process has not finished. Raises OSError [EL013].

    A file in it is locked as long as the process lives, so that other processes can
    remove what a killed one has left.
    """

    def __init__(self, output: Path) -> None:
        self.folder = output / UNFINISHED / secrets.token_hex(8)
        try:
            (output / SHARDS).mkdir(parents=True, exist_ok=True)
            (output / UNFINISHED).mkdir(exist_ok=True)
            with _locked(output):  # or it would look like a left one
                self.folder.mkdir()
                self._progress = (self.folder / PROGRESS).open("wb", buffering=0)
                _lock(self._progress)
        except OSError as error:
            message = Errors.EL013.format(path=output, error=error)
            raise OSError(error.errno, message) from error

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def tell(self, **progress: Any) -> None:
        """Write down how far this process is, for those that watch the folder."""
        line = json.dumps(progress).ljust(200).encode()
        with suppress(OSError):  # a full disk: writing a shard says so
            self._progress.seek(0)
            self._progress.write(line)


def workers_of(output: Path) -> Iterator[dict[str, Any]]:
    """Yield what each process that is at work has written down."""
    for path in (output / UNFINISHED).glob(f"*/{PROGRESS}"):
        with suppress(OSError, ValueError):
            told = path.read_bytes()
            if told and not _is_left(path):
                yield json.loads(told)


def remove_leftovers(output: Path) -> None:
    """Remove what processes that were killed have left unfinished."""
    # Errors: there are none, or the disk can't be written, which a worker says.
    with suppress(OSError), _locked(output):
        for entry in os.scandir(output / UNFINISHED):
            if entry.is_dir() and _is_left(Path(entry.path) / PROGRESS):
                shutil.rmtree(entry.path, ignore_errors=True)


def _lock(file: IO[bytes]) -> None:
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)


@contextmanager
def _locked(output: Path) -> Iterator[None]:
    with (output / UNFINISHED / LOCK).open("ab") as file:
        _lock(file)
        yield


def _is_left(path: Path) -> bool:
    """Return whether the process that locked a file is gone."""
    if fcntl is None:
        return False
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
