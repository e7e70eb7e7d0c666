"""Text files -> parts: blocks of documents, tokenized by many processes.

A part is a file with the running text of one block, in word numbers of its own. It
depends on its block alone. A part that exists is not made again.
"""

import multiprocessing
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from tqdm import tqdm

from ..errors import Errors
from ..files import write_files
from ..processes import end_with_parent
from .contents import Content
from .corpus import count_tokens, number_words, sentence_end
from .files import TextFile
from .reading import Reader, read_contents
from .tokens import Reading

BLOCK = 4_000_000  # characters that one part is made of


@dataclass(frozen=True)
class Request:
    """The settings of a prepared corpus.

    Attributes:
        lang: Language of the tokenizer.
        tokenizer: "spacy" or "whitespace".
        sentences: Whether lines are split at the ends of sentences.
        vocab_size: Most words of the vocabulary, special tokens included.
        min_count: Least number of times that a word of it is in the text.
        max_tokens: The text ends with the sentence of this token; None for all.
    """

    lang: str = "en"
    tokenizer: str = "spacy"
    sentences: bool = True
    vocab_size: int = 50_000
    min_count: int = 1
    max_tokens: int | None = None


class NumberedBlock(NamedTuple):
    """The content of a part: distinct words, the running text in their numbers, and the
    number of lines."""

    words: list[str]
    ids: np.ndarray
    n_lines: int


def reader_of(request: Request) -> Reader:
    """Return the reader of the text. Raises as `Reader`."""
    return _reader(Reading(request.lang, request.tokenizer, request.sentences))


@cache  # one in each process, whose tokenizer knows what it has split
def _reader(reading: Reading) -> Reader:
    return Reader(reading)


def make_parts(
    sources: Sequence[TextFile],
    folder: Path,
    request: Request,
    *,
    processes: int = 1,
    progress: bool = True,
) -> int:
    """Write the parts of text files. Return the number of parts that hold the text.

    Args:
        sources: The text files.
        folder: The folder of the parts.
        request: The settings.
        processes: Number of processes that tokenize.
        progress: Whether to show a progress bar.

    Raises:
        OSError: [EL044] A process was killed.
    """
    total = sum(file.size for file in sources)
    shown = {"unit": "B", "unit_scale": True, "disable": not progress}
    n_parts = tokens = 0
    with tqdm(desc="reading text", total=total, **shown) as bar:
        blocks = _blocks(sources, request, bar)
        for made in _make_all(blocks, folder, request, processes):
            n_parts, tokens = n_parts + 1, tokens + made
            bar.set_postfix(tokens=f"{tokens:,}", refresh=False)
            if request.max_tokens is not None and tokens >= request.max_tokens:
                break
    return n_parts


def read_parts(
    folder: Path, n_parts: int, max_tokens: int | None, progress: bool, desc: str
) -> Iterator[NumberedBlock]:
    """Yield the content of parts in order.

    Args:
        folder: The folder of the parts.
        n_parts: Number of parts.
        max_tokens: The text ends with the sentence of this token; None for all.
        progress: Whether to show a progress bar.
        desc: Description of the progress bar.
    """
    for number in tqdm(range(n_parts), desc, leave=False, disable=not progress or None):
        if max_tokens is not None and max_tokens <= 0:
            return
        with np.load(_path(folder, number), allow_pickle=False) as part:
            words = part["words"].tobytes().decode("utf-8").split("\n")
            ids, n_lines = part["ids"], int(part["lines"])
        if max_tokens is not None:
            ids = ids[: sentence_end(ids, max_tokens)]
            max_tokens -= count_tokens(ids)
        if len(ids):
            yield NumberedBlock(words, ids, n_lines)


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.npz"


def _blocks(
    sources: Sequence[TextFile], request: Request, bar: "tqdm[Any]"
) -> Iterator[list[Content]]:
    """Yield the contents of files, about BLOCK characters at a time."""
    block: list[Content] = []
    size = 0
    for source in sources:
        for content in read_contents(source, reader_of(request), bar.update):
            tokens = (t for sentence in content.sentences for t in sentence.tokens)
            length = len((content.text or "").strip()) + sum(map(len, tokens))
            if not length:
                continue
            block.append(content)
            size += length
            if size >= BLOCK:
                yield block
                block, size = [], 0
    if block:
        yield block


def _make_all(
    blocks: Iterator[list[Content]], folder: Path, request: Request, processes: int
) -> Iterator[int]:
    """Make all parts. Yield the number of tokens of each part, in order."""
    tasks = ((block, _path(folder, i), request) for i, block in enumerate(blocks))
    if processes == 1:
        yield from (make_part(*task) for task in tasks)
        return
    # spawn, since a forked process would inherit locks that torch's threads hold.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, end_with_parent)
    running: deque[Future[int]] = deque()
    try:
        for task in tasks:
            running.append(pool.submit(make_part, *task))
            if len(running) > 2 * processes:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    except BrokenProcessPool as error:
        raise Errors.EL044(processes=processes) from error
    finally:
        pool.shutdown(cancel_futures=True)


def make_part(block: list[Content], path: Path, request: Request) -> int:
    """Write the part of a block, unless the file exists and is whole. Return its number
    of tokens."""
    if path.exists():
        # NumPy raises all of these for damaged files.
        with suppress(OSError, ValueError, EOFError, KeyError, BadZipFile, zlib.error):
            with np.load(path, allow_pickle=False) as part:
                found = {name: part[name] for name in ("words", "ids", "lines")}
            return count_tokens(found["ids"])
    sentences = reader_of(request).sentences(block)
    words, ids = number_words(map(_without_line_feeds, sentences))
    # As bytes, since NumPy would make every string as long as the longest.
    text = np.frombuffer("\n".join(words).encode("utf-8"), dtype=np.uint8)
    save = partial(_save, ids=ids, words=text, lines=np.array(len(block)))
    write_files(path.parent, {path.name: save})
    return count_tokens(ids)


def _without_line_feeds(sentence: list[str]) -> list[str]:
    """Replace line feeds by spaces: a line feed separates the words of a part. Tokens
    of JSON and of Docs can have line feeds."""
    if any("\n" in token for token in sentence):
        return [token.replace("\n", " ") for token in sentence]
    return sentence


def _save(path: Path, **arrays: np.ndarray) -> None:
    with path.open("wb") as file:  # NumPy would add an ending to a name
        np.savez(file, allow_pickle=False, **arrays)
