"""JSON and word lists beside the weights."""

import json
from pathlib import Path
from typing import Any

from ...errors import Errors
from ...files import MAX_JSON, MAX_WORDS, reading
from ...files import read_json as read_checked_json


def read_json(path: Path) -> Any:
    """Return what a JSON file holds. Raises ValueError [EL002] if it can't be read."""
    with reading(path, Errors.EL002, max_bytes=MAX_JSON, format="JSON"):
        return json.loads(path.read_text(encoding="utf-8"))


def read_own_json(path: Path) -> Any:
    """Return what a JSON file of ours holds, whose checksum is compared. Raises
    ValueError [EL002] if it can't be read, or was changed."""
    with reading(path, Errors.EL002, max_bytes=MAX_JSON, format="JSON"):
        return read_checked_json(path.read_text(encoding="utf-8"), path)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file. Raises ValueError [EL002] if it can't be
    read."""
    with reading(path, Errors.EL002, max_bytes=MAX_WORDS, format="UTF-8 text"):
        return path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")


def read_vocab(path: Path) -> list[str]:
    """Return the words of a UTF-8 file, one a line. Raises as `read_lines`."""
    return _words(read_lines(path))


def _words(lines: list[str]) -> list[str]:
    """Return lines without what Windows gives them: a mark at the beginning, and an end
    of its own, if all have one but perhaps the last."""
    lines = [lines[0].removeprefix("\ufeff"), *lines[1:]]
    if all(line.endswith("\r") for line in lines[:-1] or lines):
        return [line.removesuffix("\r") for line in lines]
    return lines


def check_can_be_read_again(words: list[str] | None, format: str) -> None:
    """Raise ValueError [EL027] unless `read_vocab` reads from `vocab_text` what was
    written."""
    if words is None:
        return
    try:
        text = "\n".join(words).encode("utf-8").decode("utf-8")
        is_same = _words(text.split("\n")) == words
    except UnicodeEncodeError:
        is_same = False
    if not is_same:
        problem = "a word has a line break or no UTF-8, or there are no words"
        raise ValueError(Errors.EL027.format(format=format, problem=problem))


def vocab_text(words: list[str]) -> str:
    """Return words as `read_vocab` reads them from a file."""
    return "".join(f"{word}\n" for word in words)
