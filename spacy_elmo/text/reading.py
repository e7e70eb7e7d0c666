"""Text files -> documents in sentences of tokens, for all commands that read text.

files -> records -> contents -> tokens
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from sys import maxsize
from typing import TYPE_CHECKING, TypeVar

from ..bilm import UnicodeForm, in_form
from ..errors import Warnings
from .contents import Content
from .kinds import TextFile, describe, files_of
from .records import CHARACTERS_AT_ONCE, MAX_PIECE, Source, line_of, open_source
from .tokens import Reading, tokenizer_of

if TYPE_CHECKING:
    from spacy.tokens import Span

T = TypeVar("T")
TEXTS_AT_ONCE = 1000  # most texts that are tokenized at once
RANGE = 4 * MAX_PIECE  # bytes of a file that are read at once


class Reader:
    """Turns documents into sentences.

    Args:
        reading: The settings.
        naive: Whether to read as plans of format 2: sentences may span lines, and
            tokens are placed in the text that they make.

    Raises:
        ValueError: [EL032] There is no such language or tokenizer. [EL209] The pipeline
            has another hash.
    """

    def __init__(self, reading: Reading, *, naive: bool = False) -> None:
        self._reading, self._naive = reading, naive
        self._tokenize = tokenizer_of(reading, lines=not naive)

    def documents(self, source: Source, start: int, end: int) -> Iterator[Content]:
        """Yield the documents of a range of a file in sentences, long ones in pieces.
        Range and errors are those of `Source.contents`."""
        offset = 0
        contents = source.contents(start, end, self._reading, naive=self._naive)
        for content in self._tokenized(contents):
            offset = 0 if content.begins else offset
            yield content._replace(
                id=content.id or source.file.document,
                sentences=[sentence.moved(offset) for sentence in content.sentences],
            )
            offset += len(content.text or "")

    def sentences(self, contents: Iterable[Content]) -> Iterator[list[str]]:
        """Yield the sentences of contents."""
        for content in self._tokenized(contents):
            for sentence in content.sentences:
                yield sentence.tokens

    def _tokenized(self, contents: Iterable[Content]) -> Iterator[Content]:
        """Yield contents, those of text with its sentences."""
        limits = CHARACTERS_AT_ONCE, TEXTS_AT_ONCE
        for batch in batched(contents, _n_characters, *limits):
            texts = [content.text or "" for content in batch]
            for content, sentences in zip(batch, self._tokenize(texts)):
                has_tokens = content.text is None
                yield content if has_tokens else content._replace(sentences=sentences)


def read_contents(
    file: TextFile,
    reading: Reading,
    progress: Callable[[int], object] = lambda n_bytes: None,
) -> Iterator[Content]:
    """Yield the contents of a whole file, in order.

    Args:
        file: The file.
        reading: The settings, with the names of the fields of JSON lines.
        progress: A callback, called with the number of bytes on the disk that were read
            since its last call.

    Raises:
        ValueError, OSError: As `Source.contents`.
    """
    start, reported, may_warn = 0, 0, file.kind == "text"
    with closing(open_source(file)) as source:
        while not source.at_end:
            for content in source.contents(start, start + RANGE, reading):
                if may_warn and not content.begins:
                    may_warn = False
                    line = line_of(file, content.position)
                    what = Warnings.ELW05(
                        path=file.path, line=line, length=CHARACTERS_AT_ONCE
                    )
                    warnings.warn(what, stacklevel=3)
                yield content
            start, now = start + RANGE, source.stream.raw_position
            progress(now - reported)
            reported = now


def read_sentences(
    paths: Iterable[str | Path],
    *,
    lang: str,
    kind: str | None = None,
    tokenizer: str = "spacy",
    sentences: bool = True,
    keep: Callable[[str], bool] = lambda text: True,
    form: UnicodeForm | None = None,
) -> Iterator[Sequence[str]]:
    """Yield all sentences of text files, and of text files in folders, in order.

    Args:
        paths: The files and folders.
        lang: Language of spaCy's tokenizer.
        kind: Kind of all files, as `describe` has it.
        tokenizer: "spacy" or "whitespace".
        sentences: Whether lines are split at the ends of sentences.
        keep: A filter of texts, applied before they are tokenized.
        form: Unicode form that text is turned to first, if any.

    Raises:
        ValueError, OSError: As `Reader`, `describe`, `files_of` and `Source.contents`.
    """
    reading = Reading(lang, tokenizer, sentences)
    reader = Reader(reading)

    def contents(path: Path) -> Iterator[Content]:
        for content in read_contents(describe(path, kind), reading):
            text = content.text and in_form([content.text], form)[0]
            if text is None or keep(text):
                yield content._replace(text=text)

    for path, _ in files_of(paths):
        for sentence in reader.sentences(contents(path)):
            yield in_form(sentence, form)


def read_lines(path: str | Path, kind: str | None = None) -> Iterator[str]:
    """Yield the lines of a text without white space around them, or the sentences of a
    file of tokens, with a space between two tokens. Arguments are those of `describe`.
    Raises as `describe` and `Source.contents`."""
    for content in read_contents(describe(path, kind), Reading()):
        lines = (content.text or "").split("\n")
        yield from filter(None, map(str.strip, lines))
        yield from (" ".join(sentence.tokens) for sentence in content.sentences)


def read_spans(path: Path) -> Iterator["Span"]:
    """Yield the sentences of the Docs in a `.spacy` file, with their annotation. A Doc
    without boundaries is one sentence. Raises ValueError [EL220] if the file is
    damaged, OSError [EL030] if it can't be read."""
    with closing(open_source(describe(path, "spacy"))) as source:
        for _, _, doc in source.read(0, 1 << 62):
            yield from doc.sents if doc.has_annotation("SENT_START") else [doc[:]]


def _n_characters(content: Content) -> int:
    return len(content.text or "")


def batched(
    items: Iterable[T], size: Callable[[T], int], most: int, most_items: int = maxsize
) -> Iterator[list[T]]:
    """Yield lists of items. Each list ends with the item that brings the sum of their
    sizes to `most`, or their number to `most_items`."""
    batch: list[T] = []
    total = 0
    for item in items:
        batch.append(item)
        total += size(item)
        if total >= most or len(batch) >= most_items:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch
