"""Evaluation corpora that are put together from public repositories.

The training parts of the English Web Treebank and of the Portuguese Bosque are too
large for some mirrors as single files, and are made from smaller ones; the sense
corpora are packed.
"""

import hashlib
import io
import lzma
import os
import re
import tarfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from .mirrors import candidates, find_mirror, read_blobs
from .source import Repository

_TREEBANK = Repository(
    "UniversalDependencies/UD_English-EWT",
    "15d613d8447b3478787d4c278730a1e48a945efb",
    r"^not-to-release/(?:sources/.*\.conllu|file-lists/files\.train)$",
)
_ENTITIES = "UniversalNER/UNER_English-EWT"
_ENTITIES_BLOB = "236914d90bc061dfaae0abf322ab36da483fd70a"  # before the release
_SENSES = Repository(
    "google-research-datasets/word_sense_disambigation_corpora",
    "894bf257296d1994df55c17fde0b09192644c74f",
    r"",
)
_BOSQUE = Repository(
    "UniversalDependencies/UD_Portuguese-Bosque",
    "5de7ac34028ff6d1718031a4b0ae895717ed8dbe",
    r"^not-to-release/(?:documents/.*\.conllu|pt_bosque-ud-\w*\.txt)$",
)


class Corpus(NamedTuple):
    """A file that is made; the SHA-256 is of its bytes, or of an archive's list."""

    path: str
    licence: str
    sha256: str
    make: Callable[[Path], tuple[bytes, str]]


def make_evaluation(
    sources: Path, output: Path, only: Collection[str] | None = None
) -> list[Path]:
    """Write the corpora below `output`, those of the names `only` or all; return their
    paths.

    Raises:
        FileNotFoundError: There is no mirror; the message says how to get it.
        ValueError: A corpus has another SHA-256 than the table says.
    """
    written = []
    for corpus in CORPORA:
        if only is not None and corpus.path not in only:
            continue
        data, digest = corpus.make(sources)
        if digest != corpus.sha256:
            raise ValueError(f"{corpus.path}: SHA-256 {digest}, not {corpus.sha256}")
        path = output / corpus.path
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        aside.write_bytes(data)
        os.replace(aside, path)
        written.append(path)
    return written


def _treebank(sources: Path) -> tuple[bytes, str]:
    """The documents of the training part, in the order of the treebank's own list."""
    files = _files(_TREEBANK, sources)
    folder = "not-to-release/"
    names = files[f"{folder}file-lists/files.train"].decode().split()
    data = b"".join(files[f"{folder}sources/{name}"] for name in names)
    return data, hashlib.sha256(data).hexdigest()


def _bosque(sources: Path, part: str = "train") -> tuple[bytes, str]:
    """The sentences of a part, in the order of the treebank's own list, from the files
    of its documents. Raises KeyError if one is in none. (Dev and test made so have the
    words, tags and trees of the published files.)"""
    files = _files(_BOSQUE, sources)
    folder = "not-to-release/"
    sentences = {}
    for name, data in files.items():
        if name.endswith(".conllu"):
            for sentence in data.decode("utf-8").strip().split("\n\n"):
                found = re.search(r"^# sent_id = (.*)$", sentence, re.MULTILINE)
                if found:
                    sentences[found[1].strip()] = sentence.strip("\n")
    names = files[f"{folder}pt_bosque-ud-{part}.txt"].decode().split()
    data = "".join(f"{sentences[name]}\n\n" for name in names).encode()
    return data, hashlib.sha256(data).hexdigest()


def _entities(sources: Path) -> tuple[bytes, str]:
    """The annotation before its release, with the classes of the release: people,
    places and organisations; annotators' names are left out, as there."""
    mirror = find_mirror(sources, _ENTITIES)
    (before,) = read_blobs(mirror, [_ENTITIES_BLOB])
    lines = [_released(line) for line in before.decode("utf-8").split("\n")]
    data = "\n".join(lines).encode()
    return data, hashlib.sha256(data).hexdigest()


def _released(line: str) -> str:
    if "\t" not in line or line.startswith("#"):
        return line
    number, word, tag = line.split("\t")[:3]
    tag = tag if tag.endswith(("-PER", "-LOC", "-ORG")) else "O"
    return f"{number}\t{word}\t{tag}\t-\t-"


def _senses(sources: Path) -> tuple[bytes, str]:
    """All files but the one that is over the limit of size, packed."""
    packed = io.BytesIO()
    listed = []
    with (
        lzma.open(packed, "wb") as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as out,
    ):
        for name, data in sorted(_files(_SENSES, sources).items()):
            entry = tarfile.TarInfo(f"wsd-noad/{name}")
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))
            listed.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
    return packed.getvalue(), hashlib.sha256("".join(listed).encode()).hexdigest()


def _files(repository: Repository, sources: Path) -> dict[str, bytes]:
    mirror = find_mirror(sources, repository.name)
    found = candidates(repository, mirror, smallest=0)
    contents = read_blobs(mirror, (blob for blob, _ in found))
    return {path: data for (_, path), data in zip(found, contents)}


CORPORA = (
    Corpus(
        "en_ewt-ud-train.conllu",
        "CC BY-SA 4.0",
        "3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b",
        _treebank,
    ),
    Corpus(
        "en_ewt-ud-train.iob2",
        "CC BY-SA 4.0",
        "12d3ccba12b57469bef99dd34bc9a20cee30ead19896358ee60b4a420c769db1",
        _entities,
    ),
    Corpus(
        "wsd-noad.tar.xz",
        "CC BY 4.0",
        "2146387d65a1747543118af7535eba94e1d7e1a41663e3b2f23527dad14a5882",
        _senses,
    ),
    Corpus(
        "pt_bosque-ud-train.conllu",
        "CC BY-SA 4.0",
        "1bfae99aba4ce6bf36ae54a68921690964ddb622b345a4a42fcc7b54ae95e6a6",
        _bosque,
    ),
)
