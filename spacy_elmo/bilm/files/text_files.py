"""JSON and word lists beside the weights, and files that can't be read."""

import json
from pathlib import Path
from typing import Any

from ...errors import Errors


def unreadable(path: Path, format: str, error: Exception) -> ValueError:
    """Return the error [EL002] of a file that is not what its name says."""
    first_line = str(error).partition("\n")[0]
    return ValueError(Errors.EL002.format(path=path, format=format, error=first_line))


def read_json(path: Path) -> Any:
    """Return what a JSON file holds. Raises ValueError [EL002] if it can't be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, "JSON", error) from error


def read_vocab(path: Path) -> list[str]:
    """Return the words of a UTF-8 file, one a line. Raises ValueError [EL003] if it
    can't be read."""
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(Errors.EL003.format(path=path, problem=error)) from error
    words = text.removesuffix("\n").split("\n")
    if all(word.endswith("\r") for word in words):  # lines as Windows ends them
        words = [word.removesuffix("\r") for word in words]
    return words


def vocab_text(words: list[str]) -> str:
    """Return words as `read_vocab` reads them from a file."""
    return "".join(f"{word}\n" for word in words)
