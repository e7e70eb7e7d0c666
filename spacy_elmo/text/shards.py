"""A prepared corpus on disk: what `spacy elmo prepare` writes and the trainer maps.

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
from pathlib import Path
from typing import Any

import numpy as np

from ..atomic_files import sha256
from ..errors import Errors
from .corpus import MAX_CHARACTERS, SPECIALS, Corpus, RunningText, check_vocab

MANIFEST, WORDS = "manifest.json", "words.txt"
COUNTS, CHARACTERS = "counts.npy", "characters.npy"
FORMAT_VERSION = 1


def is_prepared(path: Path) -> bool:
    """Return whether a folder holds a prepared corpus."""
    return (path / MANIFEST).is_file()


def shard_name(number: int, direction: str) -> str:
    """Return the file name of a shard."""
    return f"{number:05d}.{direction}.npy"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder.

    Raises:
        ValueError: [EL041] It can't be read, or has another format.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT_VERSION:
            raise ValueError(f"format {manifest['format']!r} is not known here")
        for name, entry in manifest["files"].items():
            if Path(name).name != name or type(entry["bytes"]) is not int:
                raise ValueError(f"it lists {name!r}")
        for key in ("sentences", "tokens", "types", "vocab", "shards"):
            if type(manifest["counts"][key]) is not int:
                raise ValueError(f"its count of {key} is not a number")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        problem = f"{MANIFEST} can't be read: {error!r}"
        raise ValueError(Errors.EL041.format(path=folder, problem=problem)) from error
    return dict(manifest)


def manifest_hash(folder: Path) -> str:
    """Return a hash of a prepared text: folders with one hash hold the same."""
    files = json.dumps(read_manifest(folder)["files"], sort_keys=True)
    return hashlib.sha256(files.encode()).hexdigest()


def check_files(folder: Path, *, whole: bool = True) -> dict[str, Any]:
    """Return the manifest, after comparing every file with it.

    If not whole, only that the files are there is checked, and their sizes.

    Raises:
        ValueError: [EL041] A file is missing or changed.
    """
    manifest = read_manifest(folder)
    n_shards = manifest["counts"]["shards"]
    directions = ("forward", "backward")
    expected = [shard_name(i, d) for i in range(n_shards) for d in directions]
    for name in [WORDS, COUNTS, CHARACTERS, *expected]:
        problem, entry = None, manifest["files"].get(name)
        if entry is None:
            problem = f"the manifest does not list '{name}'"
        elif not (folder / name).is_file():
            problem = f"'{name}' is missing"
        elif (folder / name).stat().st_size != entry["bytes"]:
            problem = f"'{name}' has another size than when it was written"
        elif whole and sha256(folder / name) != entry["sha256"]:
            problem = f"'{name}' was changed after it was written"
        if problem:
            raise ValueError(Errors.EL041.format(path=folder, problem=problem))
    return manifest


def open_corpus(folder: Path, *, check: bool = True) -> Corpus:
    """Map a prepared corpus into memory, with the vocabulary it was prepared with.

    If check is set, all files are read first, and their hashes and the range of their
    numbers compared. One process does so for those that share the folder.

    Raises:
        ValueError: [EL034, EL039] Its words are no vocabulary; [EL041] a file is
            missing, damaged or changed.
    """
    manifest = check_files(folder, whole=check)
    n_types, n_vocab = manifest["counts"]["types"], manifest["counts"]["vocab"]
    # Words are separated by line feeds alone: other line ends may be inside one.
    lines = (folder / WORDS).read_bytes().decode("utf-8")
    words = lines.removesuffix("\n").split("\n")
    check_vocab(words, folder / WORDS)
    counts_V = _load(folder / COUNTS, np.int64, (len(words),))
    characters_VC = _load(folder / CHARACTERS, np.uint16, (len(words), MAX_CHARACTERS))
    if not len(SPECIALS) <= n_vocab <= n_types == len(words):
        problem = "its counts don't fit its words"
        raise ValueError(Errors.EL041.format(path=folder, problem=problem))
    texts = []
    for direction in ("forward", "backward"):
        names = [shard_name(i, direction) for i in range(manifest["counts"]["shards"])]
        text = RunningText([_load(folder / name, np.int32, (None,)) for name in names])
        for ids in text.blocks() if check else ():
            if int(ids.min()) < 0 or int(ids.max()) >= n_types:
                problem = f"its {direction} text has numbers that stand for no word"
                raise ValueError(Errors.EL041.format(path=folder, problem=problem))
        texts.append(text)
    corpus = Corpus(words, counts_V, characters_VC, words, counts_V, *texts)
    return corpus.limit_vocab(n_vocab)


def _load(path: Path, dtype: type, shape: tuple[int | None, ...]) -> np.ndarray:
    """Map an array; raise ValueError [EL041] if it is not of the type and shape."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        problem = f"'{path.name}' is not a NumPy array: {error}"
        raise ValueError(Errors.EL041.format(path=path.parent, problem=problem)) from (
            error
        )
    fits = len(array.shape) == len(shape) and all(
        want is None or want == found for want, found in zip(shape, array.shape)
    )
    if array.dtype != dtype or not fits:
        problem = f"'{path.name}' is an array of {array.dtype} {array.shape}"
        raise ValueError(Errors.EL041.format(path=path.parent, problem=problem))
    return array.view(np.ndarray)
