"""JSON and word lists beside the weights."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import Errors, Warnings
from ...files import MAX_JSON, MAX_WORDS, decode, reading
from ...files import read_json as read_checked_json
from ..config import BiLMConfig


def read_json(path: Path) -> Any:
    """Read a JSON file. Raises ValueError [EL002] if it can't be read."""
    with reading(path, Errors.EL002, max_bytes=MAX_JSON, format="JSON"):
        return json.loads(decode(path.read_bytes()))


def read_own_json(path: Path) -> Any:
    """Read a JSON file of ours, and compare its checksum. Raises ValueError [EL002] if
    it can't be read, or was changed."""
    with reading(path, Errors.EL002, max_bytes=MAX_JSON, format="JSON"):
        return read_checked_json(decode(path.read_bytes()), path)


@contextmanager
def settings_of(path: Path) -> Iterator[None]:
    """Turn the lack of a setting of a JSON file, or its wrong kind, into an error.
    Raises ValueError [EL003]."""
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"a setting is missing or of the wrong kind ({error})"
        raise Errors.EL003(path=path, problem=problem) from error


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file. Raises ValueError [EL002] if it can't be
    read."""
    with reading(path, Errors.EL002, max_bytes=MAX_WORDS, format="UTF-8 text"):
        return decode(path.read_bytes()).removesuffix("\n").split("\n")


def read_vocab(path: Path) -> list[str]:
    """Return the words of a file, one a line. Raises as `read_lines`."""
    return _words(read_lines(path))


def read_vocab_beside(path: Path, config: BiLMConfig) -> list[str] | None:
    """Return the words in a file beside weights, or None if there is no such file.

    Raises:
        ValueError: [EL002] It can't be read, and the model has a word embedding.

    Warns:
        UserWarning: [ELW61] It can't be read, and the model reads characters alone.
    """
    if not path.exists():
        return None
    try:
        return read_vocab(path)
    except ValueError as error:
        if config.n_words:
            raise
        warnings.warn(Warnings.ELW61(error=error), stacklevel=5)
        return None


def _words(lines: list[str]) -> list[str]:
    """Remove the carriage return of Windows at the end of lines, if all lines have one.
    The last line may lack it."""
    if all(line.endswith("\r") for line in lines[:-1] or lines):
        return [line.removesuffix("\r") for line in lines]
    return lines


def check_can_be_read_again(words: list[str], format: str) -> None:
    """Raise ValueError [EL027] unless `read_vocab` reads the same words from
    `vocab_text`."""
    try:
        text = decode("\n".join(words).encode("utf-8"))
        is_same = _words(text.split("\n")) == words
    except UnicodeEncodeError:
        is_same = False
    if not is_same:
        problem = "a word has a line break or no UTF-8, or there are no words"
        raise Errors.EL027(format=format, problem=problem)


def vocab_text(words: list[str]) -> str:
    """Return the text of a file of words, one a line."""
    return "".join(f"{word}\n" for word in words)
