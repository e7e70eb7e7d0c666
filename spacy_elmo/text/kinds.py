"""The kind of text in a file, by its name and its first bytes.

    name            kind    a document is
    .jsonl .ndjson  jsonl   an object, a line
    .conllu .conll  conllu  a sentence
    .spacy          spacy   a Doc
    all others      text    a line, or the file

Each kind may be compressed (`unpack.UNPACK`). A file that is known not to be text is
refused. Otherwise a model would learn from mark-up, and only its vectors would show it.
"""

import hashlib
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ..errors import ElmoError, Errors, Warnings
from ..files import check_plain, encoding_of, named_path, new_checksum
from .unpack import CHUNK, UNPACK, ByteStream

BY_NAME = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".conllu": "conllu",
    ".conll": "conllu",
    ".spacy": "spacy",
}
KINDS = ("text", *dict.fromkeys(BY_NAME.values()))

HEAD = 1 << 13  # first bytes of a file that are examined
# A text is taken for columns if it has at least FEW_LINES lines, and MOST of them look
# so; for mark-up if the share TAGS of its lines begins with a tag.
MOST = 0.8
FEW_LINES = 3
TAGS = 0.1

_EXTRACT = "write its text into a .txt file, a document a line, or into the field "
_EXTRACT += "'text' of a .jsonl file, an object a line"
_CONVERT = "'spacy convert FILE FOLDER --converter ner' makes a .spacy file of it"
_UNPACK = "unpack it, and name the files or the folder"
# A description of files that are not text, and the way out -> the endings of names.
_OTHERS: dict[tuple[str, str], str] = {
    ("a JSON document", _EXTRACT): ".json",
    ("subtitles", _EXTRACT): ".srt .vtt",
    ("settings", _EXTRACT): ".cfg .ini .toml .yaml .yml",
    ("a notebook", _EXTRACT): ".ipynb",
    ("CoNLL-U Plus", "keep the ten columns of CoNLL-U, as .conllu"): ".conllup",
    ("a table", _EXTRACT): ".tsv .csv .tab",
    ("mark-up", _EXTRACT): ".xml .html .htm .xhtml .tei .rss .svg .vrt .tex",
    ("a file of tokens and their labels", _CONVERT): (
        ".iob .iob2 .bio .bilou .conll03 .conll2003"
    ),
    ("not a text file", _EXTRACT): (
        ".pdf .doc .docx .odt .rtf .epub .xls .xlsx .ods .ppt .pptx .parquet .arrow "
        ".feather .npy .npz .pkl .h5 .hdf5 .db .sqlite .pt .safetensors"
    ),
    ("an archive", _UNPACK): ".zip .tar .tgz .tbz2 .txz .7z .rar",
}
_NOT_TEXT = {
    ending: why for why, endings in _OTHERS.items() for ending in endings.split()
}
# First bytes of files that are not text, whatever their name is.
_MAGIC: dict[bytes, tuple[str, str]] = {
    b"%PDF": ("a PDF", _EXTRACT),
    b"{\\rtf": ("a document in RTF", _EXTRACT),
    b"PK\x03\x04": ("a zip archive, as .docx, .xlsx and .epub are", _UNPACK),
    b"\x1f\x8b": ("packed by gzip", "name it .gz"),
    b"\xfd7zXZ": ("packed by xz", "name it .xz"),
    b"BZh": ("packed by bzip2", "name it .bz2"),
    b"x\x9c": ("packed by zlib, as Docs are", "name it .spacy if it holds Docs"),
    b"\x28\xb5\x2f\xfd": ("packed by zstd", "name it .zst"),
}
_TAG = re.compile(r"\s*<[/!?]?[A-Za-z][^<>]*>")
_LABEL = re.compile(r"O|[BILUES]-\S+")
_CONLLU_ROW = re.compile(r"\d+([-.]\d+)?\t[^\t]*\t")
_CONLLU_COLUMNS = "ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC"
CONLLU_ID = re.compile(r"\d+([-.]\d+)?")  # of a token, in the first column
_TIMES = re.compile(r"(\d+:)+\d\d[,.]\d{3} --> (\d+:)+\d\d[,.]\d{3}")


@dataclass(frozen=True)
class TextFile:
    """A text file as it was when it was described.

    Attributes:
        path: Its path.
        kind: One of KINDS.
        compression: The ending of its name, such as ".gz"; "" if it is not compressed.
        size: Number of bytes.
        modified: Time of the last change in nanoseconds.
        checksum: Checksum of its bytes, to recognize it if the time has changed; None
            if it was not computed.
        document: Id of the document, if the file is one; None if each line is one.
    """

    path: str
    kind: str
    compression: str
    size: int
    modified: int
    checksum: str | None = None
    document: str | None = None

    @property
    def is_sequential(self) -> bool:
        """Whether it can only be read from the beginning."""
        return self.compression != "" or self.kind == "spacy"

    def check_unchanged(self) -> None:
        """Raise ValueError [EL204] if its contents have changed. They are read only if
        the time of the last change differs, as it does for a copy."""
        size, _ = now = _size_and_time(Path(self.path))
        if now == (self.size, self.modified):
            return
        may_be_same = size == self.size and self.checksum is not None
        if not may_be_same or checksum_of(self.path, *now) != self.checksum:
            raise Errors.EL204(path=self.path)


def describe(
    path: str | Path,
    kind: str | None = None,
    *,
    document: str | None = None,
    with_checksum: bool = False,
) -> TextFile:
    """Describe a text file.

    Args:
        path: The file.
        kind: One of KINDS; None to find it by the name and the first kilobytes.
        document: Id of the document, if the file is one; ignored for other kinds than
            "text".
        with_checksum: Whether to read the whole file for its checksum.

    Raises:
        ValueError: [EL207] There is no such kind. [EL230] It is not a text file.
            [EL231] It is of another kind than its name says. [EL031] It is UTF-16.
        OSError: [EL030] It can't be read.

    Warns:
        UserWarning: [ELW63] The text looks like mark-up or a table.
    """
    path = named_path(path)
    suffix, compression = suffixes_of(path)
    if kind not in (None, *KINDS):
        raise Errors.EL207(name="kind", found=kind, known=", ".join(KINDS))
    size, modified = _size_and_time(path)
    if kind is None and suffix in _NOT_TEXT:
        raise _not_text(path, *_NOT_TEXT[suffix])
    kind_found = kind or BY_NAME.get(suffix, "text")
    found = TextFile(str(path.resolve()), kind_found, compression, size, modified)
    _look_at(found, warn=kind is None)
    checksum = checksum_of(found.path, size, modified) if with_checksum else None
    document = document if kind_found == "text" else None
    return replace(found, checksum=checksum, document=document)


def _not_text(path: str | Path, what: str, way_out: str) -> ElmoError:
    return Errors.EL230(path=path, what=what, way_out=way_out)


def suffixes_of(path: Path) -> tuple[str, str]:
    """Return two endings of a file's name in lower case: that of its kind, such as
    ".jsonl", and that of its compression, such as ".gz". An ending is "" if the name
    does not have it."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in UNPACK else ""
    return (suffixes[-1] if suffixes else ""), compression


def files_of(
    paths: Iterable[str | Path], leave_out: Path | None = None
) -> Iterator[tuple[Path, str]]:
    """Yield files, and the files in folders by name, each with its path in the folder.

    Hidden files are left out.

    Args:
        paths: The files and folders.
        leave_out: A folder whose files are left out, too.

    Raises:
        ValueError: [EL232] A folder has no files.
        OSError: [EL030] A folder can't be read, or a path not looked for.
    """
    out = () if leave_out is None else (leave_out.resolve(),)
    for path in map(named_path, paths):
        if not _is_folder(path):
            yield path, path.name
            continue
        found = list(_files_below(path, out))
        if not found:
            raise Errors.EL232(path=path)
        yield from ((file, file.relative_to(path).as_posix()) for file in found)


def _files_below(folder: Path, left_out: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the files of a folder and of the folders in it, by name. Links are
    followed, but not to a folder that the link is in."""
    try:
        left_out, paths = (*left_out, folder.resolve()), sorted(folder.iterdir())
    except OSError as error:
        raise Errors.EL030(path=folder, error=error) from error
    for path in paths:
        if path.name.startswith("."):
            continue
        if not _is_folder(path):
            yield path
        elif path.resolve() not in left_out:
            yield from _files_below(path, left_out)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:  # no permission, a name that is too long
        raise Errors.EL030(path=path, error=error) from error


def _size_and_time(path: Path) -> tuple[int, int]:
    try:
        check_plain(path)
        stat = path.stat()
        path.open("rb").close()
    except OSError as error:
        raise Errors.EL030(path=path, error=error) from error
    return stat.st_size, stat.st_mtime_ns


@lru_cache(1024)
def checksum_of(path: str, size: int, modified: int) -> str:
    """Return the checksum of a file's bytes. It is computed again if size or time have
    changed. Raises OSError [EL030] if the file can't be read."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, new_checksum).hexdigest()
    except OSError as error:
        raise Errors.EL030(path=path, error=error) from error


# -- the first bytes ---------------------------------------------------------------


def _look_at(file: TextFile, *, warn: bool) -> None:
    """Raise ValueError [EL031, EL230, EL231] if the first bytes of a file don't fit its
    kind. If `warn`, warn [ELW63] of text that looks like mark-up or a table."""
    if not file.size or file.kind == "spacy":
        return
    with closing(ByteStream(file.path, file.compression)) as stream:
        head = stream.read(0, CHUNK)[:HEAD]
    encoding = encoding_of(head)
    if encoding not in ("utf-8", "utf-8-sig"):
        said = f"it is {encoding.upper()}"
        raise Errors.EL031(path=file.path, line=1, error=said)
    for magic, why in _MAGIC.items():
        if head.startswith(magic):
            raise _not_text(file.path, *why)
    if b"\0" in head:
        what = "not a text file, or one in UTF-16 or UTF-32"
        raise _not_text(file.path, what, _EXTRACT)
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.splitlines()[: -1 if len(head) == HEAD else None] or [text]
    lines = [line for line in lines if line.strip()]
    if file.kind == "conllu":
        _look_at_conllu(file, lines)
    looks = _looks_like(lines) if warn and lines and file.kind == "text" else None
    if looks is not None:
        what, line = looks
        warning = Warnings.ELW63(path=file.path, what=what, line=line.strip()[:80])
        warnings.warn(warning, stacklevel=4)


def _look_at_conllu(file: TextFile, lines: Sequence[str]) -> None:
    """Raise ValueError [EL231] if a file is named as CoNLL-U, but has other columns."""
    for line in lines:
        fields = line.split("\t")
        if (
            line.startswith("# global.columns")
            and line.partition("=")[2].split() != _CONLLU_COLUMNS.split()
        ):
            problem = "CoNLL-U Plus, whose columns are others"
        elif line.startswith("#") and len(fields) == 1:
            continue
        elif len(fields) > 1 and CONLLU_ID.fullmatch(fields[0]):
            return
        elif (n := len(fields if len(fields) > 1 else line.split())) > 1:
            problem = (
                f"{n} columns, which don't begin with the number of a token (a token "
                "and its labels, as of CoNLL-2003 or WNUT-17, for instance)"
            )
        else:
            problem = "no line of CoNLL-U, which begins with the number of a token"
        said = {"problem": problem, "line": line.strip()[:80], "way_out": _CONVERT}
        raise Errors.EL231(path=file.path, **said)


def _looks_like(lines: Sequence[str]) -> tuple[str, str] | None:
    """If lines look like something else than text, return its name and one of the
    lines; else return None."""
    first, rows = lines[0].strip(), [row for row in lines if not row.startswith("#")]
    tagged = [line for line in lines if _TAG.match(line)]
    if first.lower().startswith(("<?xml", "<!doctype", "<html")):
        return "mark-up", first
    if len(tagged) > 1 and len(tagged) >= TAGS * len(lines):
        return "mark-up", tagged[0]
    if first[0] in "{[" and _is_json(lines):
        return "JSON (name it .jsonl if each line is an object)", first
    if any(_TIMES.match(line) for line in lines[:FEW_LINES]):
        return "subtitles", first
    if rows and all(map(_CONLLU_ROW.match, rows)):
        return "CoNLL-U (name it .conllu)", rows[0]
    return _looks_like_columns(rows) if len(rows) >= FEW_LINES else None


def _looks_like_columns(rows: Sequence[str]) -> tuple[str, str] | None:
    most = MOST * len(rows)
    tabbed = [line for line in rows if "\t" in line.strip()]
    if len(tabbed) >= most:
        return "columns", tabbed[0]
    words = [line.split() for line in rows]
    labelled = [w for w in words if len(w) > 1 and _LABEL.fullmatch(w[-1])]
    if len(labelled) >= most:
        return "tokens and their labels", " ".join(labelled[0])
    counts = [{line.count(mark) for line in rows} for mark in ",;|"]
    is_table = any(len(found) == 1 and min(found) > 1 for found in counts)
    return ("columns", rows[0]) if is_table and len(rows) > FEW_LINES else None


def _is_json(lines: Sequence[str]) -> bool:
    """Return whether text begins like JSON: with an object or an array, on one line or
    on several."""
    first = lines[0].strip()
    try:
        return isinstance(json.loads(first), (dict, list)) and first != "[]"
    except (ValueError, RecursionError):
        second = lines[1].strip() if len(lines) > 1 else ""
        opens = first in ("{", "[") and second[:1] in ('"', "{", "[", "}", "]")
        return opens or re.match(r'[\[{]\s*[{\[]?\s*"[^"]*"\s*[:,]', first) is not None
