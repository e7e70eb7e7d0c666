"""Writing files so that nothing is ever half written: write aside, then rename."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from .errors import Errors


def write_files(
    folder: str | Path, writers: Mapping[str, Callable[[Path], None]]
) -> None:
    """Write several files of one folder, all or none.

    writers: name of each file -> a function that writes it to the path it is given.
    Every file is first written in full under a temporary name; only when all of them
    are on the disk are they renamed to their names, in the order given.

    Raises OSError [EL013], and leaves what was there before, if one can't be written.
    """
    folder = Path(folder)
    asides: dict[Path, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, write in writers.items():
            aside = folder / f".{name}.{os.getpid()}.tmp"
            asides[folder / name] = aside
            fill_aside(write, aside)
        for final, aside in asides.items():
            os.replace(aside, final)
    except OSError as error:
        message = Errors.EL013.format(path=folder, error=error)
        raise OSError(error.errno, message) from error
    finally:
        for aside in asides.values():
            aside.unlink(missing_ok=True)


def fill_aside(write: Callable[[Path], None], aside: Path) -> None:
    """Write one file in full, down to the disk."""
    write(aside)
    with aside.open("rb+") as written:
        os.fsync(written.fileno())


def write_text(text: str, path: Path) -> None:
    """Write UTF-8 with newlines as they are, on every system."""
    path.write_text(text, encoding="utf-8", newline="\n")
