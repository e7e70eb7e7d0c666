"""The folder that vectors are written to.

A shard is done when its file is there under its name. Until then it lies in a folder of
the process that writes it.
"""

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import Errors
from ..files import lock

SHARDS, UNFINISHED = "shards", ".unfinished"
PROGRESS, LOCK = "progress.json", "lock"
_SHARD_NAME = re.compile(r"\d{8}(-\d{6})?\.[\w.]+")


def names_of_shards(output: Path, folder: str = SHARDS) -> set[str]:
    """Return the names of the finished shards in a folder; none if it is not there."""
    with suppress(FileNotFoundError, NotADirectoryError):
        names = {entry.name for entry in os.scandir(output / folder)}
        return set(filter(_SHARD_NAME.fullmatch, names))
    return set()


@contextmanager
def writing(output: Path) -> Iterator[None]:
    """Turn a failure to write to the folder into one error. Raises OSError [EL013]; one
    that has a code already stays as it is."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # it has a message that says all
            raise
        raise Errors.EL013(path=output, error=error) from error


class Workspace:
    """The folder of one process for files that are not finished. Raises OSError
    [EL013].

    The process locks a file in it. When that lock is gone, the process is, and another
    one may remove the folder.
    """

    def __init__(self, output: Path) -> None:
        self.folder = output / UNFINISHED / secrets.token_hex(8)
        try:
            (output / SHARDS).mkdir(parents=True, exist_ok=True)
            (output / UNFINISHED).mkdir(exist_ok=True)
            with _locked(output):  # or it would look like a left one
                self.folder.mkdir()
                self._progress = (self.folder / PROGRESS).open("wb", buffering=0)
                lock(self._progress)
        except OSError as error:
            raise Errors.EL013(path=output, error=error) from error

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def tell(self, **progress: Any) -> None:
        """Record how far this process is, for whoever watches the folder."""
        line = json.dumps(progress).ljust(200).encode()
        with suppress(OSError):  # a full disk: writing a shard says so
            self._progress.seek(0)
            self._progress.write(line)


def workers_of(output: Path) -> Iterator[dict[str, Any]]:
    """Yield what each running process has recorded."""
    for path in (output / UNFINISHED).glob(f"*/{PROGRESS}"):
        with suppress(OSError, ValueError):
            told = path.read_bytes()
            if told and not _is_left(path):
                yield json.loads(told)


def remove_leftovers(output: Path) -> None:
    """Remove the unfinished files of processes that were killed."""
    # An OSError means that there is nothing, or that the disk can't be written: then
    # the first worker says so.
    with suppress(OSError), _locked(output):
        for entry in os.scandir(output / UNFINISHED):
            if entry.is_dir() and _is_left(Path(entry.path) / PROGRESS):
                shutil.rmtree(entry.path, ignore_errors=True)


@contextmanager
def _locked(output: Path) -> Iterator[None]:
    with (output / UNFINISHED / LOCK).open("ab") as file:
        lock(file)
        yield


def _is_left(path: Path) -> bool:
    """Return whether the process that had locked a file is gone."""
    try:
        with path.open("rb") as file:
            return lock(file, wait=False) is True
    except FileNotFoundError:
        return True
    except OSError:
        return False
