"""Checksums, so that damage is found before anything is made of a file.

file                               where the checksum is
JSON (config, card, manifest)      SHA-256 of the rest, its last entry
safetensors of an objective,       SHA-256 of header and arrays, the last entry of
of a checkpoint                    the JSON in its header
model of a saved component         SHA-256 of the rest, its last bytes
prepared text                      SHA-256 of each file, in its manifest
shard of vectors                   BLAKE2b of each array and of the header, in its
header
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Errors, Warnings
from .untrusted import check_plain

new_checksum = partial(hashlib.blake2b, digest_size=16)  # of inputs and vectors

KEY = "sha256"
_MARK, _DIGITS = b"\nsha256:", 64
_CHANGED = (
    "it was changed after it was written, its checksum says (if on purpose, remove the "
    "entry 'sha256')"
)


def add_entry(
    entries: Mapping[str, Any], sha256: Callable[[Mapping[str, Any]], str]
) -> dict[str, Any]:
    """Return entries with their checksum as the last one; `sha256` computes it."""
    return {**entries, KEY: sha256(entries)}


def check_entry(
    entries: dict[str, Any], sha256: Callable[[Mapping[str, Any]], str], path: object
) -> dict[str, Any]:
    """Return the entries without the checksum that `add_entry` gave them; warn [ELW52]
    if there is none. Raises ValueError if they were changed."""
    last = next(reversed(entries), "")
    rest = {name: value for name, value in entries.items() if name != last}
    if _is_whole(last == KEY, bool(entries) and entries[last] == sha256(rest), path):
        return rest
    return entries


def json_with_checksum(entries: Mapping[str, Any]) -> str:
    """Return a dictionary as JSON with a checksum."""
    return _json(add_entry(entries, _of_json))


def read_json(text: str, path: object) -> Any:
    """Return the value that JSON stands for, without its checksum; warn [ELW52] if it
    has none. Raises ValueError if it is no JSON, or was changed."""
    text = text.replace("\r\n", "\n")  # an editor of Windows may have saved it
    value = json.loads(text)
    if not isinstance(value, dict):
        return value
    entries = check_entry(value, _of_json, path)
    if entries is not value and text != json_with_checksum(entries):
        raise ValueError(_CHANGED)  # to other letters that mean the same
    return entries


def bytes_with_checksum(data: bytes) -> bytes:
    """Return bytes with a checksum at the end."""
    return data + _MARK + hashlib.sha256(data).hexdigest().encode()


def read_bytes(data: bytes, path: object) -> bytes:
    """Return bytes without the checksum at their end; warn [ELW52] if there is none.
    Raises ValueError if they were changed."""
    end = len(data) - len(_MARK) - _DIGITS
    content, mark, digits = data[: max(end, 0)], data[end:-_DIGITS], data[-_DIGITS:]
    right = digits == hashlib.sha256(content).hexdigest().encode()
    return content if _is_whole(mark == _MARK, right, path) else data


def _is_whole(marked: bool, right: bool, path: object) -> bool:
    """Return whether there is a checksum. Raise ValueError if its mark is damaged, or
    its digits are wrong: one changed bit can't do both."""
    if marked != right:
        raise ValueError(_CHANGED)
    if not marked:
        warnings.warn(Warnings.ELW52(path=path), stacklevel=4)
    return marked


def sha256(path: Path) -> str:
    """Return the hash of a file, in hexadecimal. Raises OSError [EL030]."""
    try:
        check_plain(path)  # a FIFO waits for ever, a device may never end
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise Errors.EL030(path=path, error=error) from error


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def bytes_of(array: np.ndarray) -> memoryview:
    """Return the bytes of an array, without a copy where it is contiguous."""
    contiguous: Any = np.ascontiguousarray(array)
    return memoryview(contiguous).cast("B") if array.size else memoryview(b"")


def _of_json(entries: Mapping[str, Any]) -> str:
    return sha256_of(_json(entries))


def _json(entries: Mapping[str, Any]) -> str:
    return json.dumps(entries, indent=2, ensure_ascii=False)
