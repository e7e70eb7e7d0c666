"""Writing files so that nothing is ever half written: write aside, then rename."""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from .errors import Errors

Writer = Callable[[Path], object]


def write_files(
    folder: str | Path, writers: Mapping[str, Writer], *, remove: Iterable[str] = ()
) -> None:
    """Write several files of one folder, all or none.

    writers: name of each file -> a function that writes it to the path it is given.
    remove: files that go if they are there and are not written.
    Every file is first written in full under a temporary name. Only when all of them
    are on the disk do they take the places of the old ones, which come back if that
    fails half-way.

    Raises OSError [EL013], and leaves what was there before, if one can't be written.
    """
    folder = Path(folder)
    asides: dict[Path, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, write in writers.items():
            aside = asides[folder / name] = _beside(folder / name, "new")
            fill_aside(write, aside)
        gone = [folder / name for name in remove if name not in writers]
        _swap(asides, gone)
    except OSError as error:
        message = Errors.EL013.format(path=folder, error=error)
        raise OSError(error.errno, message) from error
    finally:
        for aside in asides.values():
            aside.unlink(missing_ok=True)


def fill_aside(write: Writer, aside: Path) -> None:
    """Write one file in full, down to the disk."""
    write(aside)
    with aside.open("rb+") as written:
        os.fsync(written.fileno())


def write_text(text: str, path: Path) -> None:
    """Write UTF-8 with newlines as they are, on every system."""
    path.write_text(text, encoding="utf-8", newline="\n")


def _swap(asides: Mapping[Path, Path], gone: Iterable[Path]) -> None:
    """New files for old ones. If it is interrupted the old ones come back; not for a
    moment does a file have no version under its name."""
    old: dict[Path, Path] = {}
    added: list[Path] = []
    try:
        for path in [*asides, *gone]:
            if path.exists():
                old[path] = _beside(path, "old")
                _link_or_copy(path, old[path])
        for path, aside in asides.items():
            os.replace(aside, path)
            if path not in old:
                added.append(path)
        for path in gone:
            path.unlink(missing_ok=True)
    except BaseException:
        for path in added:
            path.unlink(missing_ok=True)
        for path, backup in old.items():
            if backup.exists():
                os.replace(backup, path)
                # Two links to one file, and rename leaves them both.
                backup.unlink(missing_ok=True)
        raise
    for backup in old.values():
        backup.unlink()


def _link_or_copy(path: Path, copy: Path) -> None:
    copy.unlink(missing_ok=True)
    try:
        os.link(path, copy)
    except OSError:  # not every file system has links
        shutil.copy2(path, copy)


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{what}")
