"""A prepared corpus on disk. `spacy elmo prepare` writes it, and the trainer maps it.

    manifest.json           settings, sources, counts; size and SHA-256 of every file
    words.txt               every distinct word, by frequency
    counts.npy              how often each is there
    characters.npy          the bytes of each, (V, 50) uint16
    00000.forward.npy       running text, int32: word numbers between boundaries
    00000.backward.npy      the same with each sentence back to front

Plain NumPy arrays, read without pickle; needs no spaCy.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from ..bilm import PADDING
from ..errors import ElmoError, Errors
from ..files import (
    MAX_JSON,
    check_plain,
    decode,
    folder_that_counts,
    read_json,
    sha256,
)
from .corpus import MAX_CHARACTERS, SPECIALS, Corpus, RunningText, check_vocab

MANIFEST, WORDS = "manifest.json", "words.txt"
COUNTS, CHARACTERS = "counts.npy", "characters.npy"
DIRECTIONS = ("forward", "backward")
FORMAT_VERSION = 1
COUNTED = ("sentences", "tokens", "types", "vocab", "shards")
# Errors of reading a manifest of a stranger.
UNREADABLE = OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError


def is_prepared(path: Path) -> bool:
    """Return whether a folder holds a prepared corpus."""
    return (folder_that_counts(path) / MANIFEST).is_file()


SHARD_NAME = re.compile(r"\d{5,}\.(forward|backward)\.npy")


def shard_name(number: int, direction: str) -> str:
    """Return the file name of a shard."""
    return f"{number:05d}.{direction}.npy"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder. Raises ValueError [EL041] if it is damaged."""
    path = folder_that_counts(folder) / MANIFEST
    try:
        check_plain(path, MAX_JSON)
        manifest = read_json(decode(path.read_bytes()), path)
        if manifest["format"] != FORMAT_VERSION:
            raise ValueError(f"format {manifest['format']!r} is not known here")
        counts, entries = manifest["counts"], manifest["files"].values()
        numbers = [entry["bytes"] for entry in entries]
        numbers += [counts[key] for key in COUNTED]
        if any(type(number) is not int for number in numbers):
            raise ValueError("a size or count is not a number")
        if not 0 < counts["shards"] <= len(entries):
            raise ValueError("it does not list as many shards as it counts")
    except UNREADABLE as error:
        raise _damaged(folder, f"{MANIFEST} can't be read: {error!r}") from error
    return dict(manifest)


def manifest_hash(folder: Path) -> str:
    """Return a hash of a prepared corpus. Folders with the same hash hold the same
    text.
    """
    files = json.dumps(read_manifest(folder)["files"], sort_keys=True)
    return hashlib.sha256(files.encode()).hexdigest()


def check_files(folder: Path, *, whole: bool = True) -> dict[str, Any]:
    """Compare every file with the manifest, and return the manifest. Raises ValueError
    [EL041] if a file is missing or changed. whole: whether to compare contents, too,
    and not sizes alone."""
    manifest, folder = read_manifest(folder), folder_that_counts(folder)
    n_shards = manifest["counts"]["shards"]
    shards = [shard_name(i, d) for i in range(n_shards) for d in DIRECTIONS]
    for name in [WORDS, COUNTS, CHARACTERS, *shards]:
        entry = manifest["files"].get(name)
        if entry is None:
            raise _damaged(folder, f"the manifest does not list '{name}'")
        if not (folder / name).is_file():
            raise _damaged(folder, f"'{name}' is missing")
        if (folder / name).stat().st_size != entry["bytes"]:
            raise _damaged(folder, f"'{name}' has another size than when written")
        if whole and sha256(folder / name) != entry.get("sha256"):
            raise _damaged(folder, f"'{name}' was changed after it was written")
    return manifest


def open_corpus(folder: Path, *, check: bool = True) -> Corpus:
    """Map a prepared corpus into memory, with the vocabulary of its preparation.

    Args:
        folder: The folder.
        check: Whether to read all files first, and compare their hashes and the range
            of their numbers. One of several processes that share the folder does so.

    Raises:
        ValueError: [EL034, EL039] Its words are no vocabulary. [EL041] A file is
            missing, damaged or changed.
    """
    counts = check_files(folder, whole=check)["counts"]
    folder = folder_that_counts(folder)
    # Words are separated by line feeds alone: other line ends may be inside one.
    try:
        lines = (folder / WORDS).read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise _damaged(folder, f"'{WORDS}' is not UTF-8: {error}") from error
    words = lines.removesuffix("\n").split("\n")
    check_vocab(words, folder / WORDS)
    if not len(SPECIALS) <= counts["vocab"] <= counts["types"] == len(words):
        raise _damaged(folder, "its counts don't fit its words")
    counts_V = _load(folder / COUNTS, np.int64, (len(words),))
    characters_VC = _load(folder / CHARACTERS, np.uint16, (len(words), MAX_CHARACTERS))
    if check and int(characters_VC.max()) > PADDING:
        raise _damaged(folder, f"'{CHARACTERS}' has numbers that stand for no byte")
    running = []
    for direction in DIRECTIONS:
        names = [shard_name(i, direction) for i in range(counts["shards"])]
        text = RunningText([_load(folder / name, np.int32, (None,)) for name in names])
        if check and not np.array_equal(text.counts(len(words)), counts_V):
            problem = f"its {direction} text has other words than '{COUNTS}' says"
            raise _damaged(folder, problem)
        running.append(text)
    corpus = Corpus(words, counts_V, characters_VC, words, counts_V, *running)
    return corpus.limit_vocab(counts["vocab"])


def _load(path: Path, dtype: type, shape: tuple[int | None, ...]) -> np.ndarray:
    """Map an array of a dtype and a shape, in which None stands for any length. Raises
    ValueError [EL041] if the file has another array, or none."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        problem = f"'{path.name}' is not a NumPy array: {error}"
        raise _damaged(path.parent, problem) from error
    expected = tuple(found if n is None else n for n, found in zip(shape, array.shape))
    if array.dtype != dtype or array.shape != expected or array.ndim != len(shape):
        problem = f"'{path.name}' is an array of {array.dtype} {array.shape}"
        raise _damaged(path.parent, problem)
    return array.view(np.ndarray)


def _damaged(folder: Path, problem: str) -> ElmoError:
    return Errors.EL041(path=folder, problem=problem)
