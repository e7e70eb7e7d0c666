"""Text -> shards. Text is tokenized once, by many processes. Memory grows only with the
number of distinct words.

    blocks of documents --processes--> parts (own word numbers) --one pass--> shards

A part is a file with the running text of one block. It depends on its block alone, and
parts are joined in order. So the files are the same for any number of processes, and
after any interruption: a part that exists is not made again.
"""

import json
import multiprocessing
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from tqdm import tqdm

from ..bilm import BOS, encode_words
from ..errors import Errors
from ..files import (
    held,
    json_with_checksum,
    named_path,
    recover,
    sha256,
    write_files,
)
from ..processes import end_with_parent
from . import shards
from .contents import Content
from .corpus import (
    MAX_CHARACTERS,
    SPECIALS,
    UNK_ID,
    by_frequency,
    count_tokens,
    number_words,
    reverse_sentences,
    sentence_end,
    vocabulary_size,
)
from .kinds import TextFile, describe, files_of
from .reading import Reader, batched, read_contents
from .streams import in_order
from .tokens import Reading

PARTS, REQUEST, WHOLE = "unfinished", "request.json", "whole"
BLOCK = 4_000_000  # characters that one part is made of
# Words of a shard, with boundaries. Few large shards are written, since a process can
# only open few files.
SHARD = 16_000_000
# A part: distinct words, the running text in their numbers, and the number of lines.
Part = tuple[list[str], np.ndarray, int]


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


def prepare(
    sources: Sequence[Path],
    output: Path,
    request: Request,
    *,
    kind: str | None = None,
    processes: int = 1,
    overwrite: bool = False,
    progress: bool = True,
) -> dict[str, Any]:
    """Write a prepared corpus (`shards.py`), or continue an interrupted one.

    Args:
        sources: Text files, and folders of such files.
        output: The folder to write.
        request: The settings.
        kind: Kind of all files, as `describe` has it.
        processes: Number of processes that tokenize.
        overwrite: Whether to replace a corpus of other settings, or a damaged one.
        progress: Whether to show a progress bar.

    Returns:
        The manifest.

    Raises:
        ValueError: [EL033] There is no text. [EL041] The folder has a damaged corpus.
            [EL042] It has another corpus, or other files. [EL124] Another process
            writes to it. [EL204] A file was changed while it was read. Also as
            `Reader`, `describe` and `Source.contents`.
        OSError: [EL013] A file can't be written. [EL044] A process was killed. Also as
            `describe`. Finished parts are kept for the next call.
    """
    output = named_path(output)
    files = [describe(path, kind) for path, _ in files_of(sources, leave_out=output)]
    paths, kinds = [Path(file.path) for file in files], [file.kind for file in files]
    hashes = [sha256(path) for path in paths]
    wanted = {"request": asdict(request), "sources": hashes, "kinds": kinds}
    with suppress(ValueError):  # it is damaged, or another process replaces it
        if shards.is_prepared(output) and _fits(shards.read_manifest(output), wanted):
            return shards.check_files(output)  # as any number of processes may
    with held(output):
        refuse_to_write_over(paths, output, overwrite=overwrite)
        manifest: dict[str, Any] = {}
        try:
            manifest = shards.check_files(output) if shards.is_prepared(output) else {}
        except ValueError:
            if not overwrite:
                raise
        if _fits(manifest, wanted):
            return manifest
        if manifest and not overwrite:
            raise Errors.EL042(path=output)
        reader_of(request)  # raises before anything is written
        parts = _parts_folder(output, wanted)
        try:
            n_parts = _make_parts(files, parts, request, processes, progress)
        finally:  # parts of changed files are not kept for the next call
            _check_unchanged(files, hashes, parts)
        read = partial(_read_parts, parts, n_parts, request.max_tokens, progress)
        manifest = {"format": shards.FORMAT_VERSION, **wanted}
        manifest |= _join_parts(read, parts / WHOLE, request)
        # An older corpus stays until all files of this one are written.
        made = {name: parts / WHOLE / name for name in manifest["files"]}
        _replace(output, {**made, shards.MANIFEST: json_with_checksum(manifest)})
        shutil.rmtree(parts, ignore_errors=True)  # all files are written already
        return manifest


def _fits(manifest: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Return whether a corpus was prepared from these files with these settings."""
    kinds = wanted["kinds"]
    # Version 0.2 writes no kinds, and reads CoNLL-U as lines of text.
    found = manifest if "conllu" in kinds else {"kinds": kinds, **manifest}
    return wanted == {key: found.get(key) for key in wanted}


def _ours(output: Path) -> list[Path]:
    """Return the files of a folder whose names are those of a prepared corpus."""
    fixed = (shards.MANIFEST, shards.WORDS, shards.COUNTS, shards.CHARACTERS)
    files = list(output.glob("*")) if output.is_dir() else []
    return [f for f in files if f.name in fixed or shards.SHARD_NAME.fullmatch(f.name)]


def move(prepared: Path, output: Path) -> None:
    """Move a prepared corpus into a folder, in place of the corpus there. Other files
    in the folder stay. Raises OSError [EL013] if a file can't be written."""
    _replace(output, {path.name: path for path in _ours(prepared)})
    shutil.rmtree(prepared, ignore_errors=True)


def _replace(output: Path, contents: Mapping[str, str | Path]) -> None:
    """Write the files of a prepared corpus in place of those in a folder."""
    write_files(output, contents, remove=[path.name for path in _ours(output)])


def refuse_to_write_over(
    sources: Sequence[Path], output: Path, *, overwrite: bool
) -> None:
    """Raise ValueError [EL042] if a source would be overwritten, or files with the
    names of a prepared corpus that belong to no corpus.

    Args:
        sources: The text files.
        output: The folder to write.
        overwrite: Whether such other files may be overwritten.
    """
    recover(output)
    ours, parts = {path.resolve() for path in _ours(output)}, output / PARTS
    is_source = any(path.resolve() in ours for path in sources)
    is_strange = bool(ours) and not shards.is_prepared(output)
    if parts.is_dir() and not (parts / REQUEST).exists():
        is_strange |= any(not path.name.startswith(".") for path in parts.iterdir())
    if is_source or (is_strange and not overwrite):
        raise Errors.EL042(path=output)


def _parts_folder(output: Path, wanted: dict[str, Any]) -> Path:
    """Return the folder of parts. Parts of other sources or settings are removed."""
    parts, text = output / PARTS, json.dumps(wanted, sort_keys=True)
    request = parts / REQUEST
    is_same = request.exists() and request.read_text(encoding="utf-8") == text
    if parts.exists() and not is_same:
        shutil.rmtree(parts)
    recover(parts)
    write_files(parts, {REQUEST: text})
    return parts


def _check_unchanged(
    files: Sequence[TextFile], hashes: Sequence[str], parts: Path
) -> None:
    """Raise ValueError [EL204] if the contents of a file were changed while it was
    read. Its parts are removed, which would be taken for those of the file before."""
    for file, sha256_before in zip(files, hashes):
        try:
            file.check_unchanged()
        except Errors.EL204:
            if sha256(Path(file.path)) != sha256_before:
                shutil.rmtree(parts)
                raise


# -- text -> parts -----------------------------------------------------------------


def _reading(request: Request) -> Reading:
    return Reading(request.lang, request.tokenizer, request.sentences)


def reader_of(request: Request) -> Reader:
    """Return the reader of the text. Raises as `Reader`."""
    return _reader(_reading(request))


@cache  # one in each process, whose tokenizer knows what it has split
def _reader(reading: Reading) -> Reader:
    return Reader(reading)


def _make_parts(
    files: Sequence[TextFile],
    folder: Path,
    request: Request,
    processes: int,
    progress: bool,
) -> int:
    """Write the parts of text files. Return the number of parts that hold the text."""
    total = sum(file.size for file in files)
    shown = {"unit": "B", "unit_scale": True, "disable": not progress}
    n_parts = tokens = 0
    with tqdm(desc="reading text", total=total, **shown) as bar:
        blocks = batched(_contents(files, request, bar), _n_characters, BLOCK)
        for made in _make_all(blocks, folder, request, processes):
            n_parts, tokens = n_parts + 1, tokens + made
            bar.set_postfix(tokens=f"{tokens:,}", refresh=False)
            if request.max_tokens is not None and tokens >= request.max_tokens:
                break
    return n_parts


def _contents(
    files: Iterable[TextFile], request: Request, bar: "tqdm[Any]"
) -> Iterator[Content]:
    """Yield the contents of files that are not empty."""
    for file in files:
        contents = read_contents(file, _reading(request), bar.update)
        yield from filter(_n_characters, contents)


def _n_characters(content: Content) -> int:
    tokens = (token for sentence in content.sentences for token in sentence.tokens)
    return len((content.text or "").strip()) + sum(map(len, tokens))


def _make_all(
    blocks: Iterable[list[Content]], folder: Path, request: Request, processes: int
) -> Iterator[int]:
    """Make all parts. Yield the number of tokens of each part, in order."""
    tasks = ((block, _path(folder, i), request) for i, block in enumerate(blocks))
    if processes == 1:
        yield from (make_part(*task) for task in tasks)
        return
    # spawn, since a forked process would inherit locks that torch's threads hold.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, end_with_parent)
    try:
        yield from in_order(pool, make_part, tasks, 2 * processes)
    except BrokenProcessPool as error:
        raise Errors.EL044(processes=processes) from error
    finally:
        pool.shutdown(cancel_futures=True)


def make_part(block: list[Content], path: Path, request: Request) -> int:
    """Write the part of a block, unless the file exists and is whole. Return its number
    of tokens."""
    # NumPy raises all of these for damaged files.
    with suppress(OSError, ValueError, EOFError, KeyError, BadZipFile, zlib.error):
        return count_tokens(_read_part(path)[1])
    words, ids = number_words(reader_of(request).sentences(block))
    # As bytes, since NumPy would make every string as long as the longest. Tokens of
    # JSON and of Docs can have line feeds, which separate words here.
    text = "\n".join(word.replace("\n", " ") for word in words).encode("utf-8")
    arrays: dict[str, Any] = {
        "ids": ids,
        "words": np.frombuffer(text, np.uint8),
        "lines": len(block),
    }
    write_files(path.parent, {path.name: partial(_save, np.savez, **arrays)})
    return count_tokens(ids)


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.npz"


def _save(save: Callable[..., None], path: Path, **arrays: Any) -> None:
    with path.open("wb") as file:  # NumPy would add an ending to a name
        save(file, allow_pickle=False, **arrays)


# -- parts -> shards ---------------------------------------------------------------


def _read_part(path: Path) -> Part:
    with np.load(path, allow_pickle=False) as part:
        words = part["words"].tobytes().decode("utf-8").split("\n")
        return words, part["ids"], int(part["lines"])


def _read_parts(
    folder: Path, n_parts: int, max_tokens: int | None, progress: bool, desc: str
) -> Iterator[Part]:
    """Yield parts in order, up to the end of the sentence with token max_tokens."""
    for number in tqdm(range(n_parts), desc, leave=False, disable=not progress or None):
        words, ids, n_lines = _read_part(_path(folder, number))
        if max_tokens is not None:
            ids = ids[: sentence_end(ids, max_tokens)] if max_tokens > 0 else ids[:0]
            max_tokens -= count_tokens(ids)
        if len(ids):
            yield words, ids, n_lines


def _join_parts(
    read: Callable[[str], Iterator[Part]], output: Path, request: Request
) -> dict[str, Any]:
    """Number the words of all parts by frequency, and write the shards. Return their
    entries in the manifest."""
    n_lines, counts = 0, Counter(dict.fromkeys(SPECIALS, 0))
    for words, ids, n in read("counting words"):
        n_lines += n
        for word, count in zip(words, np.bincount(ids, minlength=len(words)).tolist()):
            if count:
                counts[word] += count
    n_sentences = counts[BOS]
    if not n_sentences:
        raise Errors.EL033()
    counts_V = np.array(list(counts.values()), dtype=np.int64)
    words, counts_V, _ = by_frequency(list(counts), counts_V)
    index = {word: i for i, word in enumerate(words)}
    files: dict[str, Any] = {}

    def write(name: str, content: Any) -> None:
        if not isinstance(content, str):
            content = partial(_save, np.save, arr=content)
        write_files(output, {name: content})
        size = (output / name).stat().st_size
        files[name] = {"bytes": size, "sha256": sha256(output / name)}

    def final_ids(part: Part) -> np.ndarray:
        number_V = np.array([index.get(w, UNK_ID) for w in part[0]], dtype=np.int32)
        return number_V[part[1]]

    parts = map(final_ids, read("writing shards"))
    n_shards = 0
    for n_shards, some in enumerate(batched(parts, len, SHARD), 1):
        ids = np.concatenate(some)
        write(shards.shard_name(n_shards - 1, "forward"), ids)
        write(shards.shard_name(n_shards - 1, "backward"), reverse_sentences(ids))
    write(shards.COUNTS, counts_V)
    write(shards.CHARACTERS, _characters(words))
    write(shards.WORDS, "".join(f"{word}\n" for word in words))
    n_vocab = vocabulary_size(counts_V, request.vocab_size, request.min_count)
    n_tokens = int(counts_V.sum()) - 2 * n_sentences
    entries = {
        "lines": n_lines,
        "sentences": n_sentences,
        "tokens": n_tokens,
        "types": len(words),
        "vocab": n_vocab,
        "coverage": int(counts_V[len(SPECIALS) : n_vocab].sum()) / max(1, n_tokens),
        "shards": n_shards,
    }
    return {"counts": entries, "files": files}


def _characters(words: Sequence[str]) -> np.ndarray:
    table = np.empty((len(words), MAX_CHARACTERS), dtype=np.uint16)
    for start in range(0, len(words), 1 << 16):
        some = words[start : start + (1 << 16)]
        table[start : start + len(some)] = encode_words(some, MAX_CHARACTERS)
    return table
