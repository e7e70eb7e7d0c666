"""Parts -> shards: words numbered by frequency over the whole text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ..atomic_files import Writer, sha256, write_files, write_text
from ..bilm.words import encode_words
from ..errors import Errors
from .corpus import (
    BOS_ID,
    EOS_ID,
    MAX_CHARACTERS,
    SPECIALS,
    UNK_ID,
    by_frequency,
    reverse_sentences,
)
from .shards import CHARACTERS, COUNTS, WORDS, shard_name

SHARD = 16_000_000  # words of a shard, boundaries counted


def part_name(number: int) -> str:
    return f"{number:05d}.npz"


def count_tokens(ids: np.ndarray) -> int:
    return len(ids) - 2 * int((ids == BOS_ID).sum())


@dataclass(frozen=True)
class _Part:
    words: list[str]
    ids: np.ndarray
    lines: int


def _read_parts(
    folder: Path, n_parts: int, max_tokens: int | None, desc: str
) -> Iterator[_Part]:
    left = max_tokens
    for number in tqdm(range(n_parts), desc=desc, leave=False, disable=None):
        with np.load(folder / part_name(number), allow_pickle=False) as part:
            words = part["words"].tobytes().decode("utf-8").split("\n")
            ids, lines = part["ids"], int(part["lines"])
        if left is not None:
            if left <= 0:
                return
            is_token = (ids != BOS_ID) & (ids != EOS_ID)
            ends = np.flatnonzero((ids == EOS_ID) & (np.cumsum(is_token) >= left))
            if len(ends):
                ids = ids[: int(ends[0]) + 1]
            left -= count_tokens(ids)
        if len(ids):
            yield _Part(words, ids, lines)


def join_parts(
    folder: Path,
    n_parts: int,
    output: Path,
    *,
    vocab_size: int,
    min_count: int,
    max_tokens: int | None,
) -> dict[str, Any]:
    """Number the words of all parts by frequency, and write the shards.

    RETURNS: counts, and the size and hash of every file, for the manifest.
    Raises ValueError [EL033] if there is no text, OSError [EL013].
    """
    counts = dict.fromkeys(SPECIALS, 0)
    n_lines = n_sentences = 0
    for part in _read_parts(folder, n_parts, max_tokens, "counting words"):
        n_lines += part.lines
        n_sentences += int((part.ids == BOS_ID).sum())
        found = np.bincount(part.ids, minlength=len(part.words))
        for word, count in zip(part.words, found.tolist()):
            if count:
                counts[word] = counts.get(word, 0) + count
    if not n_sentences:
        raise ValueError(Errors.EL033)
    counts_V = np.fromiter(counts.values(), dtype=np.int64, count=len(counts))
    words, rank = by_frequency(list(counts), counts_V)
    index = {word: i for i, word in enumerate(words)}
    counts_V[rank] = counts_V.copy()
    del counts

    files: dict[str, Any] = {}

    def write(name: str, writer: Writer) -> None:
        write_files(output, {name: writer})
        size = (output / name).stat().st_size
        files[name] = {"bytes": size, "sha256": sha256(output / name)}

    def keep(name: str, array: np.ndarray) -> None:
        write(name, partial(_save_array, array=array))

    n_shards = 0
    shards = _shards(_read_parts(folder, n_parts, max_tokens, "writing shards"), index)
    for n_shards, ids in enumerate(shards, start=1):
        keep(shard_name(n_shards - 1, "forward"), ids)
        keep(shard_name(n_shards - 1, "backward"), reverse_sentences(ids))
    keep(COUNTS, counts_V)
    keep(CHARACTERS, _characters(words))
    text = "".join(f"{word}\n" for word in words)
    write(WORDS, partial(write_text, text))

    n_special = len(SPECIALS)
    frequent = int((counts_V[n_special:] >= min_count).sum())
    n_vocab = n_special + min(frequent, max(0, vocab_size - n_special))
    n_tokens = int(counts_V.sum()) - 2 * n_sentences
    known = int(counts_V[n_special:n_vocab].sum())
    return {
        "counts": {
            "lines": n_lines,
            "sentences": n_sentences,
            "tokens": n_tokens,
            "types": len(words),
            "vocab": n_vocab,
            "coverage": known / max(1, n_tokens),
            "shards": n_shards,
        },
        "files": files,
    }


def _shards(parts: Iterable[_Part], index: dict[str, int]) -> Iterator[np.ndarray]:
    """The running text in the words' final numbers, SHARD of them at a time or a little
    more: each file that is mapped costs one of the few that may be open."""
    ids: list[np.ndarray] = []
    size = 0
    for part in parts:
        number_V = np.array([index.get(w, UNK_ID) for w in part.words], dtype=np.int32)
        ids.append(number_V[part.ids])
        size += len(part.ids)
        if size >= SHARD:
            yield np.concatenate(ids)
            ids, size = [], 0
    if ids:
        yield np.concatenate(ids)


def _characters(words: Sequence[str]) -> np.ndarray:
    table = np.empty((len(words), MAX_CHARACTERS), dtype=np.uint16)
    for start in range(0, len(words), 1 << 16):
        some = words[start : start + (1 << 16)]
        table[start : start + len(some)] = encode_words(some, MAX_CHARACTERS)
    return table


def _save_array(path: Path, *, array: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
