"""Files that anyone may have made: only plain ones of a bounded size are read, and
whatever is wrong with them is one error."""

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ElmoError, one_line

MAX_JSON = 32 << 20  # bytes of a JSON file
MAX_WORDS = 512 << 20  # bytes of a list of words
# Byte order marks, UTF-32 before UTF-16: the marks of both begin with the same bytes.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def encoding_of(data: bytes) -> str:
    """Return the encoding of a text by its byte order mark; UTF-8 if it has none."""
    found = (name for mark, name in _MARKS.items() if data.startswith(mark))
    return next(found, "utf-8")


def decode(data: bytes) -> str:
    """Decode a text from UTF-8, or from the encoding of its byte order mark. Editors of
    Windows and PowerShell write such marks."""
    return data.decode(encoding_of(data))


@contextmanager
def parsing(error: type[ElmoError], path: str | Path, **also: Any) -> Iterator[None]:
    """Turn every failure to parse foreign bytes into one error.

    Only code that parses belongs into the block: a fault of ours in it would be
    reported as a damaged file.

    Args:
        error: Class of the error, whose message has places for path and error, or
            problem.
        path: Where the bytes are from.
        also: What else the message has places for.

    Raises:
        ElmoError: The error; one that has a code already stays as it is.
    """
    try:
        yield
    # No file makes a name or a package disappear.
    except (ElmoError, NameError, ImportError):
        raise
    # All others: parsers of HDF5, pickles, safetensors and msgpack raise dozens of
    # classes, few of them documented, for files that were made to break them.
    except Exception as found:
        said = one_line(found)
        raise error(**{"path": path, "error": said, "problem": said, **also}) from found


@contextmanager
def reading(
    path: Path, error: type[ElmoError], *, max_bytes: int | None = None, **also: Any
) -> Iterator[None]:
    """Turn every failure to read and parse a file into one error.

    Args:
        path: The file. It is refused before it is opened if it is not a plain file: a
            FIFO waits for ever, a device may never end.
        error: As of `parsing`.
        max_bytes: Size of the file at most.
        also: As of `parsing`.

    Raises:
        ElmoError: As `parsing`.
    """
    with parsing(error, path, **also):
        check_plain(path, max_bytes)
        yield


def check_plain(path: Path, max_bytes: int | None = None) -> None:
    """Raise OSError if a path is no plain file, or one of more than max_bytes."""
    if not path.is_file():
        raise OSError("it is not a file" if path.exists() else "it is not there")
    if max_bytes is not None and path.stat().st_size > max_bytes:
        raise OSError(f"it is larger than {max_bytes:,} bytes")
