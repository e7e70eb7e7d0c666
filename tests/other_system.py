"""A stand-in for systems other than POSIX: run before the package is imported, it takes
away what they lack, and refuses what they refuse.

No fork, no links, no locks of fcntl; folders can't be opened; a file that is open can't
be renamed, replaced or removed.
"""

import errno
import os
import shutil
import sys
from pathlib import Path

import h5py  # noqa: F401  (what is imported here may use all)
import spacy  # noqa: F401
import torch  # noqa: F401


def _open_files() -> set[str]:
    """Return what this process has open or mapped."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(str(entry.readlink()))
        except OSError:
            continue  # closed meanwhile
    maps = Path("/proc/self/maps").read_text().splitlines()
    return found | {line.split(maxsplit=5)[5] for line in maps if "/" in line}


def _refuse_open_files(name: str) -> None:
    real = getattr(os, name)

    def changed(*paths, **options):
        # Below an open folder (dir_fd) they are found by the end of their names.
        given = [os.fspath(path) for path in paths]
        if not options.get("dir_fd"):
            given = [os.path.realpath(path) for path in given]
        for path in _open_files():
            if any(path == each or path.startswith(f"{each}/") for each in given):
                raise PermissionError(errno.EACCES, "it is open", path)
        return real(*paths, **options)

    setattr(os, name, changed)


def _refuse(*arguments, **options):
    raise OSError(errno.ENOSYS, "this system has none")


def pretend() -> None:
    """Make this process one of another system."""
    assert "spacy_elmo" not in sys.modules
    sys.modules["fcntl"] = None
    del os.fork, os.register_at_fork
    os.link = _refuse
    real_open = os.open

    def open_no_folder(path, flags, *rest, **options):
        if not isinstance(path, int) and Path(path).is_dir() and "tmp" in str(path):
            raise PermissionError(errno.EACCES, "it is a folder", path)
        return real_open(path, flags, *rest, **options)

    os.open = open_no_folder
    # It opens folders to remove them, but not there.
    setattr(shutil, "_use_fd_functions", False)  # noqa: B010
    for name in ("replace", "rename", "unlink", "remove"):
        _refuse_open_files(name)


if __name__ == "__main__":
    pretend()
    exec(sys.argv[1])
