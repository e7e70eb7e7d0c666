"""Reading files that anyone may have made: plain files of a bounded size alone, and one
error whatever is wrong with them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MAX_JSON = 32 << 20  # bytes of a JSON file
MAX_WORDS = 512 << 20  # bytes of a list of words


@contextmanager
def coded(message: str, path: str | Path, **also: Any) -> Iterator[None]:
    """Turn every failure into one error; arguments and errors as of `reading`."""
    try:
        yield
    # Of any kind: what reads HDF5, pickles, safetensors and msgpack has dozens, few of
    # them documented, for files that were made to break it.
    except Exception as error:
        if str(error).startswith("[EL"):
            raise
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        values = {"path": path, "error": said, "problem": said, **also}
        raise ValueError(message.format(**values)) from error


@contextmanager
def reading(
    path: Path, message: str, *, max_bytes: int | None = None, **also: Any
) -> Iterator[None]:
    """Turn every failure to read a file into one error.

    Args:
        path: The file. What is not a plain file is refused before it is opened: a FIFO
            waits for ever, a device may never end.
        message: Of `Errors`, with places for path and error, or problem.
        max_bytes: Size of the file at most.
        also: What else the message has places for.

    Raises:
        ValueError: With the message. Errors that have a code already stay as they are.
    """
    with coded(message, path, **also):
        check_plain(path, max_bytes)
        yield


def check_plain(path: Path, max_bytes: int | None = None) -> None:
    """Raise OSError if a path is no plain file, or one of more than max_bytes."""
    if not path.is_file():
        raise OSError("it is not a file" if path.exists() else "it is not there")
    if max_bytes is not None and path.stat().st_size > max_bytes:
        raise OSError(f"it is larger than {max_bytes:,} bytes")
