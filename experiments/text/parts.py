"""The parts of a corpus: what each source says, document by document, before filters.

A part is a text file: an empty line between documents, the first line of a document
its name, each further line a paragraph. It is written aside and renamed when it is
whole, so that a build that was stopped continues with the next source.
"""

import hashlib
import importlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType

from tqdm import tqdm

from . import mirrors
from .source import Blob, Document, Repository, Source


def build_part(source: Source, folder: Path, output: Path) -> Path:
    """The part of a source, from mirrors in `folder`; made unless it is there."""
    path = part_path(source, output)
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(f".{os.getpid()}.tmp")
    parse = _parser(source).parse
    with aside.open("w", encoding="utf-8", newline="\n") as out:
        progress = tqdm(
            mirrors.listed_blobs(source, folder),
            total=mirrors.count_listed(source),
            desc=source.name,
            unit=" files",
            mininterval=2,
        )
        for number, document in enumerate(_named_once(parse(progress))):
            text = "\n".join([document.name.replace("\n", " "), *document.paragraphs])
            out.write(f"\n{text}\n" if number else f"{text}\n")
    os.replace(aside, path)
    return path


def part_path(source: Source, output: Path) -> Path:
    return output / "parts" / f"{source.name}.txt"


def _named_once(documents: Iterable[Document]) -> Iterator[Document]:
    seen: set[str] = set()
    for document in documents:
        paragraphs = [line for line in document.paragraphs if line]
        if document.name not in seen and paragraphs:
            seen.add(document.name)
            yield Document(document.name, paragraphs)


def _parser(source: Source) -> ModuleType:
    return importlib.import_module(f".parsers.{source.parser}", __package__)


def pin(source: Source, folder: Path) -> int:
    """Write the list of the files that a source reads; how many there are.

    It is made once, from the pinned commits; afterwards the list alone says what is
    read. A parser may have a function `choose`, which keeps only some of the files.
    """
    if source.wheel is not None:
        return 1
    files: dict[str, list[tuple[str, str]]] = {}
    for repository in source.repositories:
        mirror = mirrors.find_mirror(folder, repository.name)
        found = mirrors.candidates(repository, mirror)
        choose = getattr(_parser(source), "choose", None)
        if choose is not None:
            found = _chosen(choose, repository, mirror, found)
        if not found:
            raise LookupError(f"No file of {repository.name} is as {repository.paths}")
        files[repository.name] = found
    mirrors.write_list(mirrors.LISTS / f"{source.name}.xz", files)
    return sum(map(len, files.values()))


def _chosen(
    choose: Callable[[Iterable[Blob]], Iterable[Blob]],
    repository: Repository,
    mirror: Path,
    found: list[tuple[str, str]],
) -> list[tuple[str, str]]:
    ids = {}

    def blobs() -> Iterator[Blob]:
        contents = mirrors.read_blobs(mirror, (blob for blob, _ in found))
        for (blob, path), data in zip(found, tqdm(contents, total=len(found))):
            ids[hashlib.sha1(data).digest()] = blob, path
            yield Blob(repository.name, path, data)

    kept = {ids[hashlib.sha1(blob.data).digest()] for blob in choose(blobs())}
    return [entry for entry in found if entry in kept]
