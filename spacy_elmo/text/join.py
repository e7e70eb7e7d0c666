"""Parts -> shards: words numbered by frequency over the whole text."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..atomic_files import Writer, sha256, write_files, write_text
from ..bilm.words import BOS, encode_words
from ..errors import Errors
from .corpus import (
    MAX_CHARACTERS,
    SPECIALS,
    UNK_ID,
    by_frequency,
    reverse_sentences,
    vocabulary_size,
)
from .parts import Part, Request, read_parts
from .shards import CHARACTERS, COUNTS, WORDS, shard_name

SHARD = 16_000_000  # words of a shard, boundaries counted


def join_parts(
    folder: Path, n_parts: int, output: Path, request: Request
) -> dict[str, Any]:
    """Number the words of all parts by frequency, write the shards, and return what the
    manifest says of them. Raises ValueError [EL033] if there is no text."""
    read = partial(read_parts, folder, n_parts, request.max_tokens)
    n_lines, counts = _count_words(read("counting words"))
    n_sentences = counts[BOS]
    if not n_sentences:
        raise ValueError(Errors.EL033)
    counts_V = np.fromiter(counts.values(), dtype=np.int64, count=len(counts))
    words, rank = by_frequency(list(counts), counts_V)
    counts_V[rank] = counts_V.copy()
    del counts

    files: dict[str, Any] = {}

    def write(name: str, writer: Writer) -> None:
        write_files(output, {name: writer})
        size = (output / name).stat().st_size
        files[name] = {"bytes": size, "sha256": sha256(output / name)}

    def write_array(name: str, array: np.ndarray) -> None:
        write(name, partial(_save_array, array=array))

    n_shards = 0
    index = {word: i for i, word in enumerate(words)}
    for ids in _shards(read("writing shards"), index):
        write_array(shard_name(n_shards, "forward"), ids)
        write_array(shard_name(n_shards, "backward"), reverse_sentences(ids))
        n_shards += 1
    write_array(COUNTS, counts_V)
    write_array(CHARACTERS, _characters(words))
    write(WORDS, partial(write_text, "".join(f"{word}\n" for word in words)))

    n_vocab = vocabulary_size(counts_V, request.vocab_size, request.min_count)
    n_tokens = int(counts_V.sum()) - 2 * n_sentences
    known = int(counts_V[len(SPECIALS) : n_vocab].sum())
    found = {
        "lines": n_lines,
        "sentences": n_sentences,
        "tokens": n_tokens,
        "types": len(words),
        "vocab": n_vocab,
        "coverage": known / max(1, n_tokens),
        "shards": n_shards,
    }
    return {"counts": found, "files": files}


def _count_words(parts: Iterable[Part]) -> tuple[int, dict[str, int]]:
    """Return the number of lines, and how often each word is there."""
    n_lines, counts = 0, dict.fromkeys(SPECIALS, 0)
    for part in parts:
        n_lines += part.lines
        found = np.bincount(part.ids, minlength=len(part.words))
        for word, count in zip(part.words, found.tolist()):
            if count:
                counts[word] = counts.get(word, 0) + count
    return n_lines, counts


def _shards(parts: Iterable[Part], index: dict[str, int]) -> Iterator[np.ndarray]:
    """Yield the running text in the words' final numbers, SHARD of them at a time or a
    little more: each file that is mapped costs one of the few that may be open."""
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
