"""Text -> shards. Text is tokenized once, by many processes. Memory grows only with the
number of distinct words.

    blocks of lines --processes--> parts (own word numbers) --one pass--> shards

A part depends on its block alone, and parts are joined in order. So the files are the
same for any number of processes, and after any interruption.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..bilm import BOS, encode_words
from ..errors import Errors
from ..files import (
    Writer,
    json_with_checksum,
    named_path,
    recover,
    sha256,
    write_files,
)
from . import shards
from .corpus import (
    MAX_CHARACTERS,
    SPECIALS,
    UNK_ID,
    by_frequency,
    reverse_sentences,
    vocabulary_size,
)
from .files import describe, files_of
from .parts import NumberedBlock, Request, make_parts, read_parts, reader_of

PARTS, REQUEST, WHOLE = "unfinished", "request.json", "whole"
SHARD = 16_000_000  # words of a shard, with boundaries


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
            [EL042] It has another corpus, or other files. Also as `Reader`, `describe`
            and `Reader.contents`.
        OSError: [EL013] A file can't be written. [EL044] A process was killed. Also as
            `describe`. Finished parts are kept for the next call.
    """
    output = named_path(output)
    paths = [path for path, _ in files_of(sources, leave_out=output)]
    refuse_to_write_over(paths, output, overwrite=overwrite)
    files = [describe(path, kind) for path in paths]
    hashes, kinds = [sha256(path) for path in paths], [file.kind for file in files]
    wanted = {"request": asdict(request), "sources": hashes, "kinds": kinds}
    if shards.is_prepared(output):
        try:
            manifest = shards.check_files(output)
        except ValueError:
            if not overwrite:
                raise
            manifest = {}
        found = {key: manifest.get(key) for key in wanted}
        if found["kinds"] is None and "conllu" not in kinds:
            found["kinds"] = kinds  # version 0.2, which read CoNLL-U as lines of text
        if found == wanted:
            return manifest
        if not overwrite:
            raise Errors.EL042(path=output)
    reader_of(request)  # raises before anything is written
    parts = _parts_folder(output, wanted)
    n_parts = make_parts(files, parts, request, processes=processes, progress=progress)
    read = partial(read_parts, parts, n_parts, request.max_tokens, progress)
    manifest = {"format": shards.FORMAT_VERSION, **wanted}
    manifest |= _join_parts(read, parts / WHOLE, request)
    # An older corpus stays until all files of this one are written.
    made = {name: parts / WHOLE / name for name in manifest["files"]}
    _replace(output, {**made, shards.MANIFEST: json_with_checksum(manifest)})
    shutil.rmtree(parts, ignore_errors=True)  # all files are written already
    return manifest


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
    found = request.read_text(encoding="utf-8") if request.exists() else None
    if parts.exists() and found != text:
        shutil.rmtree(parts)
    recover(parts)
    write_files(parts, {REQUEST: text})
    return parts


def _join_parts(
    read: Callable[[str], Iterator[NumberedBlock]], output: Path, request: Request
) -> dict[str, Any]:
    """Number the words of all parts by frequency, and write the shards. Return their
    entries in the manifest."""
    n_lines, n_sentences, words, counts_V = _count_words(read("counting words"))
    files: dict[str, Any] = {}

    def write(name: str, content: str | Writer) -> None:
        write_files(output, {name: content})
        size = (output / name).stat().st_size
        files[name] = {"bytes": size, "sha256": sha256(output / name)}

    def write_array(name: str, array: np.ndarray) -> None:
        write(name, partial(_save, array=array))

    n_shards = 0
    for ids in _shards(read("writing shards"), words):
        write_array(shards.shard_name(n_shards, "forward"), ids)
        write_array(shards.shard_name(n_shards, "backward"), reverse_sentences(ids))
        n_shards += 1
    write_array(shards.COUNTS, counts_V)
    write_array(shards.CHARACTERS, _characters(words))
    write(shards.WORDS, "".join(f"{word}\n" for word in words))
    n_vocab = vocabulary_size(counts_V, request.vocab_size, request.min_count)
    n_tokens = int(counts_V.sum()) - 2 * n_sentences
    found = {
        "lines": n_lines,
        "sentences": n_sentences,
        "tokens": n_tokens,
        "types": len(words),
        "vocab": n_vocab,
        "coverage": int(counts_V[len(SPECIALS) : n_vocab].sum()) / max(1, n_tokens),
        "shards": n_shards,
    }
    return {"counts": found, "files": files}


def _count_words(
    parts: Iterable[NumberedBlock],
) -> tuple[int, int, list[str], np.ndarray]:
    """Return the number of lines, the number of sentences, the words by frequency, and
    their counts."""
    n_lines, counts = 0, dict.fromkeys(SPECIALS, 0)
    for part in parts:
        n_lines += part.n_lines
        found = np.bincount(part.ids, minlength=len(part.words))
        for word, count in zip(part.words, found.tolist()):
            if count:
                counts[word] = counts.get(word, 0) + count
    if not counts[BOS]:
        raise Errors.EL033()
    counts_V = np.fromiter(counts.values(), dtype=np.int64, count=len(counts))
    words, counts_V, _ = by_frequency(list(counts), counts_V)
    return n_lines, counts[BOS], words, counts_V


def _shards(
    parts: Iterable[NumberedBlock], words: Sequence[str]
) -> Iterator[np.ndarray]:
    """Yield the running text in final word numbers, at least SHARD words at a time. Few
    large shards are written, since a process can only open few files."""
    index = {word: i for i, word in enumerate(words)}
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


def _save(path: Path, *, array: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
