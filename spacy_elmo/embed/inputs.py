"""Inputs: files, what they hold, and how they were when the plan was made."""

from dataclasses import dataclass
from pathlib import Path

from ..errors import Errors
from ..text.unpack import UNPACK
from .keep import choose

KINDS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".conllu": "conllu",
    ".conll": "conllu",
    ".spacy": "spacy",
}


@dataclass(frozen=True)
class Input:
    """A file as it was when the plan was made.

    Attributes:
        path: Where it is.
        kind: "text", "jsonl", "conllu" or "spacy".
        compression: Ending of its name, such as ".gz"; "" for none.
        size: Bytes.
        modified: Time of the last change in nanoseconds.
    """

    path: str
    kind: str
    compression: str
    size: int
    modified: int

    @property
    def is_sequential(self) -> bool:
        """Whether it can only be read from its beginning."""
        return self.compression != "" or self.kind == "spacy"

    def check_unchanged(self) -> None:
        """Check that size and time are those of the plan.

        Raises:
            ValueError: [EL204] if they are not.
            OSError: [EL030] if it can't be read.
        """
        found = describe(Path(self.path), self.kind)
        if (found.size, found.modified) != (self.size, self.modified):
            raise ValueError(Errors.EL204.format(path=self.path))


def describe(path: Path, kind: str | None = None) -> Input:
    """Return what a plan says of a file.

    Args:
        path: The file.
        kind: As in `Input`; None to tell by the file's name.

    Raises:
        ValueError: [EL207] for a kind that is not known.
        OSError: [EL030] if it can't be read.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in UNPACK else ""
    kind = kind or KINDS.get(suffixes[-1] if suffixes else "", "text")
    kinds = {"text", *KINDS.values()}
    if compression:
        kinds.discard("spacy")  # such a file is compressed already
    choose("kind", kind, sorted(kinds))
    try:
        stat = path.stat()
        path.open("rb").close()
    except OSError as error:
        raise OSError(Errors.EL030.format(path=path, error=error)) from error
    where = str(path.resolve())
    return Input(where, kind, compression, stat.st_size, stat.st_mtime_ns)
