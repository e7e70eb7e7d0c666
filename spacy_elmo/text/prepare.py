"""Text -> shards: tokenised once, by many processes, in memory that grows with the
number of distinct words alone.

    blocks of lines --processes--> parts (own word numbers) --one pass--> shards

A part depends on its block alone and parts are joined in order, so what comes out does
not depend on the number of processes, nor on how often the work was interrupted: parts
that are there are not made again.
"""

import json
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ..atomic_files import recover, sha256, write_files, write_text
from ..errors import Errors
from .corpus import number_words
from .join import count_tokens, join_parts, part_name
from .reading import read_lines, tokenize_with
from .shards import FORMAT_VERSION, MANIFEST, check_files, is_prepared

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
    if output.exists():
        recover(output)
    parts = _resume(output, wanted)
    n_parts = _make_parts(sources, parts, request, processes, progress)
    (output / MANIFEST).unlink(missing_ok=True)
    manifest = {"format": FORMAT_VERSION, **wanted}
    manifest |= join_parts(
        parts,
        n_parts,
        output,
        vocab_size=request.vocab_size,
        min_count=request.min_count,
        max_tokens=request.max_tokens,
    )
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
    if parts.exists():
        recover(parts)
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
        pool = ProcessPoolExecutor(processes, context, _follow_parent)
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
                path = parts / part_name(number)
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
    return count_tokens(ids)


_tokenizer = cache(tokenize_with)


def _save_part(path: Path, **arrays: np.ndarray) -> None:
    with path.open("wb") as file:  # given a name, NumPy would add an ending to it
        np.savez(file, allow_pickle=False, **arrays)


def _follow_parent() -> None:
    """Leave interrupts to it, and end when it does, however that is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _n_tokens(path: Path) -> int:
    with np.load(path, allow_pickle=False) as part:
        return count_tokens(part["ids"])
