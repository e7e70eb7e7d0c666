"""Text -> shards: tokenised once, by many processes, in memory that does not grow.

    blocks of lines --processes--> parts (own word numbers) --one pass--> shards

A part depends on its block alone and parts are joined in order, so what comes out does
not depend on the number of processes, nor on how often the work was interrupted: parts
that are there are not made again.
"""

import json
import multiprocessing
import shutil
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ..bilm.characters import encode_words
from ..errors import Errors
from ..files import Writer, sha256, write_files, write_text
from .corpus import (
    BOS_ID,
    EOS_ID,
    MAX_CHARACTERS,
    SPECIALS,
    UNK_ID,
    by_frequency,
    number_words,
    reverse_sentences,
)
from .shards import (
    CHARACTERS,
    COUNTS,
    FORMAT_VERSION,
    MANIFEST,
    WORDS,
    check_files,
    is_prepared,
    shard_name,
)
from .text import read_lines, tokenize_with

BLOCK = 4_000_000  # characters that one part is made of
PARTS, REQUEST = "unfinished", "request.json"


@dataclass(frozen=True)
class Request:
    """What a prepared corpus depends on, beside the text itself.

    lang, tokenizer, sentences: as `tokenize_with`. vocab_size, min_count: the
    vocabulary. max_tokens: no more than about so many."""

    lang: str = "en"
    tokenizer: str = "spacy"
    sentences: bool = True
    vocab_size: int = 50_000
    min_count: int = 1
    max_tokens: int | None = None


def prepare(
    sources: Sequence[Path],
    output: Path,
    request: Request,
    *,
    processes: int = 1,
    overwrite: bool = False,
    progress: bool = True,
) -> dict[str, Any]:
    """Write a prepared corpus (see `shards.py`), or go on with an interrupted one.

    overwrite: replace a corpus that was prepared otherwise, or damaged.
    RETURNS: its manifest. Raises ValueError [EL031-EL033, EL040-EL042], OSError
    [EL013, EL030, EL044]; what was done until then is kept, to go on from.
    """
    wanted = {
        "request": asdict(request),
        "sources": [sha256(path) for path in sources],
    }
    if is_prepared(output):
        try:
            manifest = check_files(output)
        except ValueError:
            if not overwrite:
                raise
            manifest = {}
        if {key: manifest.get(key) for key in wanted} == wanted:
            return manifest
        if not overwrite:
            raise ValueError(Errors.EL042.format(path=output))
    tokenize_with(request.lang, request.tokenizer, request.sentences)  # or refuse now
    parts = _resume(output, wanted)
    n_parts = _make_parts(sources, parts, request, processes, progress)
    (output / MANIFEST).unlink(missing_ok=True)
    manifest = {"format": FORMAT_VERSION, **wanted}
    manifest |= _join(parts, n_parts, output, request)
    for path in output.glob("*.npy"):
        if path.name not in manifest["files"]:
            path.unlink()
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    write_files(output, {MANIFEST: partial(write_text, text)})
    shutil.rmtree(parts)
    return manifest


def _resume(output: Path, wanted: dict[str, Any]) -> Path:
    """The folder of parts; emptied unless they were made for the same."""
    parts = output / PARTS
    request = parts / REQUEST
    text = json.dumps(wanted, sort_keys=True)
    if parts.exists() and not (
        request.exists() and request.read_text(encoding="utf-8") == text
    ):
        shutil.rmtree(parts)
    write_files(parts, {REQUEST: partial(write_text, text)})
    return parts


# -- text -> parts ----------------------------------------------------------------


def _make_parts(
    sources: Sequence[Path],
    parts: Path,
    request: Request,
    processes: int,
    progress: bool,
) -> int:
    """RETURNS: how many parts hold the text that was asked for."""
    total = sum(path.stat().st_size for path in sources)
    make = partial(make_part, request=request)
    pool = None
    if processes > 1:
        # Started anew: a copy of this process would copy torch's threads, locked.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(processes, context, _leave_interrupts_to_parent)
    running: list[Future[int] | int] = []
    n_parts = tokens = 0
    bar = tqdm(
        total=total,
        unit="B",
        unit_scale=True,
        desc="reading text",
        disable=not progress,
    )

    def finish_one() -> None:
        nonlocal n_parts, tokens
        done = running.pop(0)
        tokens += done.result() if isinstance(done, Future) else done
        n_parts += 1
        bar.set_postfix(tokens=f"{tokens:,}", refresh=False)

    try:
        with bar:
            for number, lines in enumerate(_blocks(sources, bar)):
                path = parts / f"{number:05d}.npz"
                if path.exists():
                    running.append(_n_tokens(path))
                elif pool is not None:
                    running.append(pool.submit(make, lines, path))
                else:
                    running.append(make(lines, path))
                while len(running) > 2 * (processes if pool else 0):
                    finish_one()
                if request.max_tokens is not None and tokens >= request.max_tokens:
                    break
            while running:
                finish_one()
    except BrokenProcessPool as error:
        raise OSError(Errors.EL044.format(processes=processes)) from error
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    return n_parts


def _blocks(sources: Sequence[Path], bar: "tqdm[Any]") -> Iterator[list[str]]:
    """Lines, about BLOCK characters at a time."""
    lines: list[str] = []
    size = 0
    for source in sources:
        for line in read_lines(source, bar.update):
            lines.append(line)
            size += len(line)
            if size >= BLOCK:
                yield lines
                lines, size = [], 0
    if lines:
        yield lines


def make_part(lines: list[str], path: Path, request: Request) -> int:
    """Tokenise one block. RETURNS: the number of its tokens."""
    sentences = _tokenizer(request.lang, request.tokenizer, request.sentences)(lines)
    words, ids = number_words(sentences)
    # As bytes: NumPy would make every string as long as the longest.
    text = np.frombuffer("\n".join(words).encode("utf-8"), dtype=np.uint8)
    n_lines = np.array(len(lines))
    save = partial(_save_part, ids=ids, words=text, lines=n_lines)
    write_files(path.parent, {path.name: save})
    return _count_tokens(ids)


_tokenizer = cache(tokenize_with)


def _save_part(path: Path, **arrays: np.ndarray) -> None:
    with path.open("wb") as file:  # given a name, NumPy would add an ending to it
        np.savez(file, allow_pickle=False, **arrays)


def _leave_interrupts_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _count_tokens(ids: np.ndarray) -> int:
    return len(ids) - 2 * int((ids == BOS_ID).sum())


def _n_tokens(path: Path) -> int:
    with np.load(path, allow_pickle=False) as part:
        return _count_tokens(part["ids"])


# -- parts -> shards --------------------------------------------------------------


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
        with np.load(folder / f"{number:05d}.npz", allow_pickle=False) as part:
            words = part["words"].tobytes().decode("utf-8").split("\n")
            ids, lines = part["ids"], int(part["lines"])
        if left is not None:
            if left <= 0:
                return
            is_token = (ids != BOS_ID) & (ids != EOS_ID)
            ends = np.flatnonzero((ids == EOS_ID) & (np.cumsum(is_token) >= left))
            if len(ends):
                ids = ids[: int(ends[0]) + 1]
            left -= _count_tokens(ids)
        if len(ids):
            yield _Part(words, ids, lines)


def _join(folder: Path, n_parts: int, output: Path, request: Request) -> dict[str, Any]:
    """Number the words of all parts by frequency, and write the shards."""
    counts = dict.fromkeys(SPECIALS, 0)
    n_lines = n_sentences = 0
    limit = request.max_tokens
    for part in _read_parts(folder, n_parts, limit, "counting words"):
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
    for part in _read_parts(folder, n_parts, limit, "writing shards"):
        number_V = np.array([index.get(word, UNK_ID) for word in part.words])
        ids = number_V[part.ids].astype(np.int32)
        keep(shard_name(n_shards, "forward"), ids)
        keep(shard_name(n_shards, "backward"), reverse_sentences(ids))
        n_shards += 1
    keep(COUNTS, counts_V)
    keep(CHARACTERS, _characters(words))
    text = "".join(f"{word}\n" for word in words)
    write(WORDS, partial(write_text, text))

    n_special = len(SPECIALS)
    frequent = int((counts_V[n_special:] >= request.min_count).sum())
    n_vocab = n_special + min(frequent, max(0, request.vocab_size - n_special))
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


def _characters(words: Sequence[str]) -> np.ndarray:
    table = np.empty((len(words), MAX_CHARACTERS), dtype=np.uint16)
    for start in range(0, len(words), 1 << 16):
        some = words[start : start + (1 << 16)]
        table[start : start + len(some)] = encode_words(some, MAX_CHARACTERS)
    return table


def _save_array(path: Path, *, array: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
