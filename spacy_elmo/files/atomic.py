"""Writing files so that nothing is ever half written: write aside, then rename."""

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from ..errors import Errors
from .untrusted import MAX_JSON, check_plain

Writer = Callable[[Path], object]
_JOURNAL, _UNFINISHED, _NAMES = ".previous.", ".unfinished.", "names.json"
# Names with a token, which a user's own hidden files do not have.
_ASIDE = re.compile(r"\..+\.[0-9a-f]{8}\.(new|back)")
_REST = re.compile(re.escape(_UNFINISHED) + "[0-9a-f]{8}")
_TO_PUT_BACK = re.compile(re.escape(_JOURNAL) + "[0-9a-f]{8}")
# What systems and disks say that sync no folders: Windows EACCES.
_NO_SYNC = errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP, errno.EPERM


def write_files(
    folder: str | Path,
    contents: Mapping[str, str | Writer | Path],
    *,
    remove: Iterable[str] = (),
) -> None:
    """Write several files of one folder, all or none: first in full under temporary
    names, then, when all are on the disk, in the places of the old ones. Once this
    returns they stay there, even if the power fails.

    Args:
        folder: Made if it is not there.
        contents: Name of each file, and its text, a function that writes it to the
            path it is given, or where it is already, on the same disk.
        remove: Files that go if they are there and are not written.

    Raises:
        OSError: [EL013] if one can't be written. What was there before is left.
    """
    folder, remove = Path(folder), list(remove)
    asides: dict[Path, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)
        for journal in _journals(folder):  # of a process that was killed here before
            if {*contents, *remove} & set(_names_in(journal)):
                _put_back(journal)
        for name, given in contents.items():
            if isinstance(given, Path):
                asides[folder / name] = given
                continue
            aside = asides[folder / name] = _beside(folder / name, "new")
            write = partial(write_text, given) if isinstance(given, str) else given
            fill_aside(write, aside)
        if contents:
            _swap(asides, [folder / name for name in remove if name not in contents])
    except OSError as error:
        raise _coded(folder, error) from error
    finally:
        with suppress(OSError):  # a disk that can't be written: that is said already
            for aside in asides.values():
                aside.unlink(missing_ok=True)


def write_file(path: str | Path, content: str | Writer) -> None:
    """Write one file that a user names, as `write_files`: where a link leads to, and
    straight into what is no file, as a device or a pipe."""
    path = Path(path).resolve()
    if path.is_file() or not path.exists():
        return write_files(path.parent, {path.name: content})
    try:
        (partial(write_text, content) if isinstance(content, str) else content)(path)
    except OSError as error:
        raise _coded(path, error) from error


def _coded(folder: Path, error: OSError) -> OSError:
    message = Errors.EL013.format(path=folder, error=error)
    return OSError(message) if error.errno is None else OSError(error.errno, message)


def fill_aside(write: Writer, aside: Path) -> None:
    """Write one file in full, down to the disk."""
    write(aside)
    with aside.open("rb+") as written:
        os.fsync(written.fileno())


def sync_folder(folder: Path) -> None:
    """Write a folder's list of names to the disk, where the system can."""
    try:
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def write_text(text: str, path: Path) -> None:
    """Write UTF-8 with newlines as they are, on every system."""
    path.write_text(text, encoding="utf-8", newline="\n")


def _swap(asides: Mapping[Path, Path], gone: Iterable[Path]) -> None:
    """Put new files in the places of old ones. If it is interrupted the old ones come
    back: now, or when `recover` is called after the process was killed. Every file has
    a version under its name at every moment."""
    paths = [*asides, *gone]
    if len(paths) == 1:
        os.replace(asides[paths[0]], paths[0])
        return sync_folder(paths[0].parent)
    token = secrets.token_hex(4)
    unfinished = paths[0].with_name(_UNFINISHED + token)
    journal = paths[0].with_name(_JOURNAL + token)
    unfinished.mkdir()
    try:
        for path in paths:
            if path.exists():
                _link_or_copy(path, unfinished / path.name)
        names = json.dumps([path.name for path in paths])
        fill_aside(partial(write_text, names), unfinished / _NAMES)
        sync_folder(unfinished)
        _rename(unfinished, journal)
        for path, aside in asides.items():
            os.replace(aside, path)
        for path in paths[len(asides) :]:
            path.unlink(missing_ok=True)
        _rename(journal, unfinished)  # from here on the new files are those that count
    except BaseException:
        if journal.exists():
            _put_back(journal)
        raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _rename(journal: Path, new: Path) -> None:
    """Rename a journal, after all that was done before, and before what comes next."""
    sync_folder(journal.parent)
    journal.rename(new)
    sync_folder(journal.parent)


def folder_that_counts(folder: Path) -> Path:
    """Return where to read files that are written together: the folder itself, or, if a
    process was killed while it replaced them, the journal that holds the old ones."""
    return next(iter(_journals(folder)), folder)


def _journals(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.glob(f"{_JOURNAL}*")
        if _TO_PUT_BACK.fullmatch(path.name) and (path / _NAMES).exists()
    )


def _names_in(journal: Path) -> list[str]:
    """Return the names of the files that a journal holds. Raises OSError if they are
    not names of files beside it: a folder may come from anyone."""
    path = journal / _NAMES
    try:
        check_plain(path, MAX_JSON)
        names = json.loads(path.read_text(encoding="utf-8"))
        if not (isinstance(names, list) and all(map(_is_name, names))):
            raise ValueError("not a list of names of files")
    except (ValueError, RecursionError) as error:
        raise OSError(f"{path}: {error}") from error
    return names


def _is_name(name: object) -> bool:
    if not isinstance(name, str) or name in ("", ".", ".."):
        return False
    return not set(name) & set("/\\:\0")


def recover(folder: Path) -> None:
    """Undo what a process that was killed while it wrote here left half done. No other
    process may be writing to the folder. Raises OSError [EL013]."""
    try:
        for journal in _journals(folder):
            _put_back(journal)
        for path in list(folder.iterdir()) if folder.exists() else []:
            if _ASIDE.fullmatch(path.name):
                path.unlink()
            elif _REST.fullmatch(path.name):
                shutil.rmtree(path)
    except OSError as error:
        raise _coded(folder, error) from error


def _put_back(journal: Path) -> None:
    """Bring the files that a journal holds back."""
    for name in _names_in(journal):
        path = journal.parent / name
        if (journal / name).exists():
            # By a copy of the link: the journal stays whole until all are back.
            back = _beside(path, "back")
            _link_or_copy(journal / name, back)
            os.replace(back, path)
            back.unlink(missing_ok=True)  # two links to one file: rename leaves both
        else:
            path.unlink(missing_ok=True)
    # Not under its own name: killed half-way, it would look like one of fewer files.
    done = journal.with_name(journal.name.replace(_JOURNAL, _UNFINISHED))
    _rename(journal, done)
    shutil.rmtree(done)


def _link_or_copy(path: Path, copy: Path) -> None:
    copy.unlink(missing_ok=True)
    try:
        os.link(path, copy)
    except OSError:  # not every file system has links
        fill_aside(partial(shutil.copyfile, path), copy)


def _beside(path: Path, what: str) -> Path:
    # Not by the number of the process, which in a container is always the same.
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.{what}")


def sha256(path: Path) -> str:
    """Return the hash of a file, in hexadecimal. Raises OSError [EL030]."""
    try:
        check_plain(path)  # a FIFO waits for ever, a device may never end
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise OSError(Errors.EL030.format(path=path, error=error)) from error
