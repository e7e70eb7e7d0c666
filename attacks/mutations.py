"""Damage to files: cuts, flipped bits, lies about sizes and types, and what is no file.

Each mutation changes a folder in one place, chosen by a random generator, and returns
what it did, in a few words.
"""

import gzip
import io
import json
import os
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Change = Callable[[bytes, random.Random], bytes]
SIZES = [0, 1, 2, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1]
NUMBERS = [
    "0", "-1", "1", "3.5", "1e308", "1e400", "NaN", "Infinity", "-Infinity",
    "1000000000", "9" * 400, "9" * 5000, '"7"', "null", "true", "0.1e-400",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 10**9, 10**400, 0.5, float("nan"), float("inf"), "", "x",
    "../../x", "/dev/zero", "\0", "\ud800", [], {}, [[]], [None], {"a": 1}, "y" * 10**6,
    [0] * 10**5, list(range(300)),
]  # fmt: skip


# -- bytes ------------------------------------------------------------------------


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def flip(data: bytes, rng: random.Random) -> bytes:
    return _flip(data, rng.randrange(len(data)), rng)


def flip_early(data: bytes, rng: random.Random) -> bytes:
    """In the first bytes, where most formats have their structure."""
    return _flip(data, int(len(data) ** rng.random()) - 1, rng)


def _flip(data: bytes, at: int, rng: random.Random) -> bytes:
    return _put(data, at, bytes([data[at] ^ 1 << rng.randrange(8)]))


def overwrite(data: bytes, rng: random.Random) -> bytes:
    n = rng.choice([1, 2, 4, 8, 64, 1000])
    fill = rng.choice([bytes(n), b"\xff" * n, rng.randbytes(n)])
    return _put(data, rng.randrange(len(data)), fill)[: len(data)]


def insert(data: bytes, rng: random.Random) -> bytes:
    at, n = rng.randrange(len(data) + 1), rng.choice([1, 8, 1000])
    return data[:at] + rng.randbytes(n) + data[at:]


def remove(data: bytes, rng: random.Random) -> bytes:
    at, n = rng.randrange(len(data)), rng.choice([1, 8, 1000])
    return data[:at] + data[at + n :]


def repeat(data: bytes, rng: random.Random) -> bytes:
    start, stop = sorted(rng.choices(range(len(data) + 1), k=2))
    return data[:stop] + data[start:]


def exchange(data: bytes, rng: random.Random) -> bytes:
    a, b, c = sorted(rng.choices(range(len(data) + 1), k=3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def lie_about_a_size(data: bytes, rng: random.Random) -> bytes:
    """As a little or big endian number, where a number stands more often than not."""
    form = rng.choice("BHIQ")
    size = rng.choice(SIZES) % 256 ** struct.calcsize(form)
    at = int(len(data) ** rng.random()) - 1
    return _put(data, at, struct.pack(rng.choice("<>") + form, size))


def lie_about_a_number(data: bytes, rng: random.Random) -> bytes:
    """In text: another number for one that stands there."""
    digits = [i for i, byte in enumerate(data[:100_000]) if 48 <= byte <= 57]
    if not digits:
        return flip(data, rng)
    start = stop = rng.choice(digits)
    while start and data[start - 1 : start].isdigit():
        start -= 1
    while data[stop : stop + 1].isdigit():
        stop += 1
    return data[:start] + rng.choice(NUMBERS).encode() + data[stop:]


def _put(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


# -- structure --------------------------------------------------------------------


def edit_json(data: bytes, rng: random.Random) -> bytes:
    """Put a value of another type or size at a random place of JSON."""
    tree = json.loads(data)
    places = list(_places(tree))
    if not places:
        return json.dumps(rng.choice(VALUES)).encode()
    owner, key = rng.choice(places)
    what = rng.randrange(6)
    if what == 0:
        del owner[key]
    elif what == 1 and isinstance(owner, dict):
        owner[rng.choice(["x", "", "__class__", str(key) * 9])] = owner[key]
    elif what == 2:
        other, name = rng.choice(places)
        owner[key] = json.loads(json.dumps(other[name]))
    else:
        owner[key] = rng.choice(VALUES)
    return json.dumps(tree).encode()


def deep_json(data: bytes, rng: random.Random) -> bytes:
    depth = rng.choice([100, 2000, 100_000])
    return b"[" * depth + data + b"]" * depth


def _places(tree: Any) -> Any:
    """Yield every place in nested values, as what holds it and its key."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(pairs):
        yield tree, key
        if isinstance(value, (dict, list)):
            yield from _places(value)


def edit_header(data: bytes, rng: random.Random) -> bytes:
    """Edit the JSON at the head of a safetensors file, whose size is right again."""
    size = int.from_bytes(data[:8], "little")
    header = edit_json(data[8 : 8 + size], rng)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


def edit_in_zip(data: bytes, rng: random.Random) -> bytes:
    """Change a file in a zip file, whose checksums are right again."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        chosen = rng.choice(old.namelist())
        for name in old.namelist():
            content = old.read(name)
            if name == chosen and content:
                content = rng.choice(BYTES)(content, rng)
            new.writestr(name, content)
    return out.getvalue()


def edit_in_gzip(data: bytes, rng: random.Random) -> bytes:
    return gzip.compress(rng.choice(BYTES)(gzip.decompress(data), rng), mtime=0)


BYTES: list[Change] = [
    cut, flip, flip_early, overwrite, insert, remove, repeat, exchange,
    lie_about_a_size, lie_about_a_number,
]  # fmt: skip
STRUCTURE: dict[str, list[Change]] = {
    ".json": [edit_json, edit_json, edit_json, deep_json],
    ".safetensors": [edit_header, edit_header],
    ".pkl": [edit_in_zip, edit_in_zip, edit_in_zip],
    ".gz": [edit_in_gzip],
}


# -- what is no file --------------------------------------------------------------


def special(path: Path, rng: random.Random) -> str:
    """Put something else in the place of a file."""
    kinds = [
        "empty",
        "folder",
        "zero",
        "null",
        "circle",
        "huge",
        "nowhere",
        "nothing",
        "pipe",
    ]
    if ".txt" in path.name or ".jsonl" in path.name:
        kinds.remove("pipe")  # text comes through pipes as it does from files
    kind = rng.choice(kinds)
    size = path.stat().st_size
    path.unlink()
    if kind == "empty":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind in ("zero", "null"):
        path.symlink_to(f"/dev/{kind}")
    elif kind == "circle":
        path.symlink_to(path.name)
    elif kind == "huge":  # of zeros that take no room on the disk
        path.touch()
        os.truncate(path, size + 2**34)
    elif kind == "nowhere":
        path.symlink_to("/nowhere/at/all")
    return f"{kind} in its place"


def mutate(path: Path, rng: random.Random) -> str:
    """Damage one file in one way. Return what was done."""
    if rng.random() < 0.03:
        return special(path, rng)
    data = path.read_bytes()
    change = rng.choice(BYTES + 2 * STRUCTURE.get(path.suffix, []))
    try:
        changed = change(data, rng) if data else rng.randbytes(9)
    except (ValueError, UnicodeError, zipfile.BadZipFile):  # of an older kind
        change, changed = flip, flip(data, rng)
    path.write_bytes(changed)
    return change.__name__
