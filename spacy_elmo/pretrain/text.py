"""Text files -> sentences of tokens, as spaCy makes them.

The one file of the trainer that imports spaCy.
"""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

import spacy
from spacy.language import Language

from ..errors import Errors

_OPENERS: dict[str, Callable[..., IO[Any]]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".bz2": bz2.open,
}
LINES_AT_ONCE = 2000


def read_lines(path: Path) -> Iterator[str]:
    """Lines of a UTF-8 text file, empty ones left out; .gz, .xz and .bz2 are unpacked.

    Raises FileNotFoundError [EL030], ValueError [EL031] if it is not UTF-8.
    """
    opener = _OPENERS.get(path.suffix, open)
    number = 0
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            for line in file:
                number += 1
                if line.strip():
                    yield line.strip()
    except UnicodeDecodeError as error:
        raise ValueError(
            Errors.EL031.format(path=path, line=number + 1, error=error)
        ) from error
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise FileNotFoundError(Errors.EL030.format(path=path, error=error)) from error


def tokenizer(lang: str, *, split_sentences: bool) -> Language:
    """A blank pipeline that tokenises, and finds sentence ends by punctuation if asked.

    Raises ValueError [EL032] for a language that spaCy does not have.
    """
    try:
        nlp = spacy.blank(lang)
    except ImportError as error:
        if "E048" not in str(
            error
        ):  # spaCy's "can't import language"; others are not ours
            raise
        raise ValueError(Errors.EL032.format(lang=lang, error=error)) from error
    nlp.max_length = 1 << 40  # nothing here needs memory beyond the line itself
    if split_sentences:
        nlp.add_pipe("sentencizer")
    return nlp


def sentences(lines: Iterable[str], nlp: Language) -> Iterator[list[str]]:
    """Tokens of each sentence (of each line, if nlp does not split). No white space."""
    lines = iter(lines)
    while chunk := list(islice(lines, LINES_AT_ONCE)):
        with nlp.memory_zone():  # or every new word of the text would stay in memory
            for doc in nlp.pipe(chunk):
                for sentence in (
                    doc.sents if doc.has_annotation("SENT_START") else [doc]
                ):
                    tokens = [token.text for token in sentence if not token.is_space]
                    if tokens:
                        yield tokens


def read_sentences(
    paths: Iterable[Path], *, lang: str, split_sentences: bool = True
) -> Iterator[list[str]]:
    """All sentences of text files, in order. Raises as `read_lines` and `tokenizer`."""
    nlp = tokenizer(lang, split_sentences=split_sentences)
    for path in paths:
        yield from sentences(read_lines(path), nlp)
