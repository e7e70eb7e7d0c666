"""Writing files so that none is ever half written: under a temporary name, in full and
down to the disk, and then renamed.

`write_files` replaces several files together; `publish` moves one large file, which its
writer has filled where it works.
"""

import errno
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
from .paths import named_path
from .untrusted import MAX_JSON, check_plain

Writer = Callable[[Path], object]
_JOURNAL, _UNFINISHED, _NAMES = ".previous.", ".unfinished.", "names.json"
# Names with a token, which a user's own hidden files do not have.
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.(new|back)")
_REST = re.compile(re.escape(_UNFINISHED) + "[0-9a-f]{8}")
_TO_PUT_BACK = re.compile(re.escape(_JOURNAL) + "[0-9a-f]{8}")
# Systems and disks that sync no folders raise these; Windows EACCES.
_NO_SYNC = errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP, errno.EPERM


def write_files(
    folder: str | Path,
    contents: Mapping[str, str | Writer | Path],
    *,
    remove: Iterable[str] = (),
) -> None:
    """Write several files of one folder: all of them, or none.

    Each is written in full under a temporary name. When all are on the disk, they take
    the places of the old ones. Once this returns they stay there, even if the power
    fails.

    Args:
        folder: Created if needed.
        contents: Name of each file, and one of these: its text, a function that writes
            it to a given path, or the path where it already is, on the same disk.
        remove: Names of files to remove, unless they are written.

    Raises:
        OSError: [EL013] if one can't be written. What was there before is left.
    """
    folder, remove = Path(folder), list(remove)
    new_files: dict[Path, Path] = {}
    temporary: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)
        for journal in _journals(folder):  # of a process that was killed here before
            if {*contents, *remove} & set(_names_in(journal)):
                _put_back(journal)
        for name, given in contents.items():
            if isinstance(given, Path):
                new_files[folder / name] = given
                continue
            temporary.append(_beside(folder / name, "new"))
            fill(given, temporary[-1])
            new_files[folder / name] = temporary[-1]
        if contents:
            _swap(new_files, [folder / name for name in remove if name not in contents])
    except OSError as error:
        raise Errors.EL013(path=folder, error=error) from error
    finally:
        with suppress(OSError):  # a disk that can't be written: that is said already
            for path in temporary:
                path.unlink(missing_ok=True)


def write_file(path: str | Path, content: str | Writer) -> None:
    """Write one file that a user names, as `write_files` does. A link is followed; a
    device or a pipe is written to as it is."""
    path = named_path(path).resolve()
    if path.is_file() or not path.exists():
        return write_files(path.parent, {path.name: content})
    try:
        _write(content, path)
    except OSError as error:
        raise Errors.EL013(path=path, error=error) from error


def publish(temporary: Path, path: Path, *, replace: bool = True) -> None:
    """Move a finished file to its name, down to the disk.

    Args:
        temporary: The file, on the same disk.
        path: Its name.
        replace: Whether it replaces a file of that name. Otherwise the existing file
            stays, whichever process wrote it.
    """
    _sync(temporary)
    if not replace:
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            replace = not path.exists()
    if replace:
        os.replace(temporary, path)
    sync_folder(path.parent)


def fill(content: str | Writer, path: Path) -> None:
    """Write one file in full, down to the disk."""
    _write(content, path)
    _sync(path)


def _write(content: str | Writer, path: Path) -> None:
    """Write a text in UTF-8, with its newlines as they are, or call the function that
    writes the file."""
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8", newline="\n")
    else:
        content(path)


def _sync(path: Path) -> None:
    with path.open("rb+") as written:
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


def _swap(new_files: Mapping[Path, Path], gone: Iterable[Path]) -> None:
    """Put new files in the places of old ones. If this is interrupted, the old ones
    come back: at once, or by `recover` after the process was killed. At every moment
    every file has a version under its name."""
    paths = [*new_files, *gone]
    if len(paths) == 1:
        os.replace(new_files[paths[0]], paths[0])
        return sync_folder(paths[0].parent)
    token = secrets.token_hex(4)
    unfinished = paths[0].with_name(_UNFINISHED + token)
    journal = paths[0].with_name(_JOURNAL + token)
    unfinished.mkdir()
    try:
        for path in paths:
            if path.exists():
                _link_or_copy(path, unfinished / path.name)
        fill(json.dumps([path.name for path in paths]), unfinished / _NAMES)
        sync_folder(unfinished)
        _rename(unfinished, journal)
        for path, new in new_files.items():
            os.replace(new, path)
        for path in paths[len(new_files) :]:
            path.unlink(missing_ok=True)
        _rename(journal, unfinished)  # from here on the new files count
    except BaseException:
        if journal.exists():
            _put_back(journal)
        raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _rename(journal: Path, new: Path) -> None:
    """Rename a journal: after all earlier changes, and before all later ones."""
    sync_folder(journal.parent)
    journal.rename(new)
    sync_folder(journal.parent)


def folder_that_counts(folder: Path) -> Path:
    """Return the folder from which to read files that are written together: the folder
    itself, or its journal with the old files if a process was killed while it replaced
    them."""
    return next(iter(_journals(folder)), folder)


def _journals(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.glob(f"{_JOURNAL}*")
        if _TO_PUT_BACK.fullmatch(path.name) and (path / _NAMES).exists()
    )


def _names_in(journal: Path) -> list[str]:
    """Return the names of the files that a journal holds. Raises OSError unless all are
    names of files beside it: a folder may come from anyone."""
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
    """Undo what a killed process has left half written. No other process may be writing
    to the folder. Raises OSError [EL013]."""
    try:
        for journal in _journals(folder):
            _put_back(journal)
        for path in list(folder.iterdir()) if folder.exists() else []:
            if _TEMPORARY.fullmatch(path.name):
                path.unlink()
            elif _REST.fullmatch(path.name):
                shutil.rmtree(path)
    except OSError as error:
        raise Errors.EL013(path=folder, error=error) from error


def _put_back(journal: Path) -> None:
    """Bring back the files that a journal holds."""
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
    try:
        os.link(path, copy)
    except OSError:  # not every file system has links
        fill(partial(shutil.copyfile, path), copy)


def _beside(path: Path, what: str) -> Path:
    # Random: the number of the process is always the same in a container.
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.{what}")
