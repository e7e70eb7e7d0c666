"""Text files -> documents in sentences of tokens, for all commands that read text.

files -> records -> contents -> tokens
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..bilm import UnicodeForm, in_form
from ..errors import ElmoError, Errors, Warnings
from .contents import Content, Fields, readers
from .files import TextFile, describe, files_of
from .records import MAX_PIECE, Record, Source, line_of, open_source
from .tokens import Sentence, Tokenize, tokenizer_of, tokenizer_of_pipeline

if TYPE_CHECKING:
    from spacy.tokens import Span

T = TypeVar("T")
# Most texts, and about the number of characters, that are tokenized at once.
TEXTS_AT_ONCE = 1000
CHARACTERS_AT_ONCE = 1 << 17
RANGE = 4 * MAX_PIECE  # bytes of a file that are read at once


@dataclass(frozen=True)
class Reading:
    """The settings of tokens and sentences.

    Attributes:
        lang: Language of spaCy's tokenizer.
        tokenizer: "spacy", or "whitespace" for tokens that spaces separate.
        split: Whether lines are split at the ends of sentences.
        pipeline: A spaCy pipeline that sets tokens and sentences instead.
        pipeline_hash: Hash of its files.
        text_field: Field of JSON lines with the text.
        id_field: Field of JSON lines with the id.
        tokens_field: Field of JSON lines with the tokens, or with a list of tokens for
            each sentence.
        window: Most tokens that the biLM reads at once (for `embed`).
    """

    lang: str = "en"
    tokenizer: str = "spacy"
    split: bool = True
    pipeline: str | None = None
    pipeline_hash: str | None = None
    text_field: str = "text"
    id_field: str = "id"
    tokens_field: str = "tokens"
    window: int = 250


class Part(NamedTuple):
    """A document, or a part of a long one.

    Attributes:
        begins: Whether the document begins with it.
        id: Id of the document in the file, if it has one.
        position: Position of the record (`Record`).
        sentences: Its sentences, with places in the document.
    """

    begins: bool
    id: str | None
    position: int
    sentences: list[Sentence]


class Reader:
    """Turns the records of files into sentences.

    Args:
        reading: The settings.
        naive: Whether to read as plans of format 2: sentences may span lines, and
            CoNLL-U is read by `contents.read_naively`.

    Raises:
        ValueError: [EL032] There is no such language or tokenizer. [EL209] The pipeline
            has another hash.
    """

    def __init__(self, reading: Reading, *, naive: bool = False) -> None:
        fields = Fields(reading.text_field, reading.id_field, reading.tokens_field)
        self._convert = readers(fields, naive=naive)
        self._tokenize = _tokenizer(reading, lines=not naive)

    def parts(self, source: Source, start: int, end: int) -> Iterator[Part]:
        """Yield the documents of a range of a file, long ones in parts. Arguments and
        errors are those of `contents`."""
        offset, document = 0, source.file.document
        found = self.contents(source, start, end)
        for some in _batches(found, lambda pair: pair[1].text):
            texts = [content.text or "" for _, content in some]
            for (record, content), tokenized in zip(some, self._tokenize(texts)):
                offset = 0 if record.begins else offset
                sentences = [
                    *content.sentences,
                    *(sentence.moved(offset) for sentence in tokenized),
                ]
                offset += len(content.text or "")
                name = content.id or document
                yield Part(record.begins, name, record.position, sentences)

    def contents(
        self, source: Source, start: int, end: int
    ) -> Iterator[tuple[Record, Content]]:
        """Yield the records of a range of a file and their contents. A long text comes
        in several contents.

        Args:
            source: The open file.
            start: Begin of the range, in bytes of the unpacked file.
            end: End of the range.

        Raises:
            ValueError: [EL031] The file is not UTF-8. [EL040] A line is no JSON object
                with text. [EL205] A sentence is not CoNLL-U. [EL220] A Doc is damaged.
            OSError: [EL030] The file can't be read.
        """
        convert = self._convert[source.file.kind]
        for record in source.read(start, end):
            try:
                content = convert(record)
            except (ValueError, LookupError, TypeError, RecursionError) as error:
                raise _refusal(source.file, record, error) from error
            first, *others = [None] if content.text is None else _cut(content.text)
            yield record, content._replace(text=first)
            for piece in others:
                yield record._replace(begins=False), Content(content.id, piece, [])

    def sentences(self, contents: Iterable[Content]) -> Iterator[list[str]]:
        """Yield the sentences of contents."""
        for some in _batches(contents, lambda content: content.text):
            texts = [content.text or "" for content in some]
            for content, tokenized in zip(some, self._tokenize(texts)):
                for sentence in (*content.sentences, *tokenized):
                    yield sentence.tokens


def read_contents(
    file: TextFile,
    reader: Reader,
    progress: Callable[[int], object] = lambda n_bytes: None,
) -> Iterator[Content]:
    """Yield the contents of a whole file, in order.

    Args:
        file: The file.
        reader: The reader of its records.
        progress: A callback, called with the number of bytes on the disk that were read
            since its last call.

    Raises:
        ValueError, OSError: As `Reader.contents`.
    """
    source, start, reported, has_warned = open_source(file), 0, 0, False
    try:
        while not source.at_end:
            for record, content in reader.contents(source, start, start + RANGE):
                if not (record.begins or has_warned or file.kind != "text"):
                    has_warned = True
                    _warn_of_long_line(file, record.position)
                yield content
            start, now = start + RANGE, source.stream.raw_position
            progress(now - reported)
            reported = now
    finally:
        source.close()


def _warn_of_long_line(file: TextFile, position: int) -> None:
    line = line_of(file, position)
    warnings.warn(
        Warnings.ELW05(path=file.path, line=line, length=CHARACTERS_AT_ONCE),
        stacklevel=4,
    )


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
        ValueError, OSError: As `Reader`, `describe`, `files_of` and `Reader.contents`.
    """
    reader = Reader(Reading(lang, tokenizer, sentences))

    def contents(path: Path) -> Iterator[Content]:
        for content in read_contents(describe(path, kind), reader):
            if content.text is None:
                yield content
                continue
            (text,) = in_form([content.text], form)
            if keep(text):
                yield content._replace(text=text)

    for path, _ in files_of(paths):
        for sentence in reader.sentences(contents(path)):
            yield in_form(sentence, form)


def read_lines(path: str | Path, kind: str | None = None) -> Iterator[str]:
    """Yield the lines of a text without white space around them, or the sentences of a
    file of tokens, with a space between two tokens. Arguments are those of `describe`.
    Raises as `describe` and `Reader.contents`."""
    reader = Reader(Reading(tokenizer="whitespace", split=False))
    for content in read_contents(describe(path, kind), reader):
        lines = (content.text or "").split("\n")
        yield from filter(None, map(str.strip, lines))
        yield from (" ".join(sentence.tokens) for sentence in content.sentences)


def read_spans(path: Path) -> Iterator["Span"]:
    """Yield the sentences of the Docs in a `.spacy` file, with their annotation. A Doc
    without boundaries is one sentence. Raises ValueError [EL220] if the file is
    damaged, OSError [EL030] if it can't be read."""
    source = open_source(describe(path, "spacy"))
    try:
        while not source.at_end:
            for _, _, doc in source.read(0, 1 << 62):
                yield from doc.sents if doc.has_annotation("SENT_START") else [doc[:]]
    finally:
        source.close()


def _refusal(file: TextFile, record: Record, error: Exception) -> ElmoError:
    """Return the coded error for a record that can't be read, with its place."""
    problem: object = error.args[0] if isinstance(error, KeyError) else error
    if file.kind == "spacy":
        return Errors.EL220(path=file.path, error=problem)
    at = record.position
    kinds = {"jsonl": Errors.EL040, "conllu": Errors.EL205}
    kind = kinds.get(file.kind, Errors.EL031)
    if isinstance(error, UnicodeDecodeError):
        at, kind = at + error.start, Errors.EL031
    line = line_of(file, at)
    return kind(path=file.path, line=line, error=problem, problem=problem)


def _tokenizer(reading: Reading, *, lines: bool) -> Tokenize:
    if reading.pipeline is not None:
        return tokenizer_of_pipeline(reading.pipeline, reading.pipeline_hash)
    return tokenizer_of(reading.lang, reading.tokenizer, reading.split, lines)


def _batches(
    found: Iterable[T], text_of: Callable[[T], str | None]
) -> Iterator[list[T]]:
    """Yield batches of items whose texts are tokenized at once. text_of: returns the
    text of an item, None if it has tokens."""
    batch: list[T] = []
    size = 0
    for each in found:
        batch.append(each)
        size += len(text_of(each) or "")
        if size >= CHARACTERS_AT_ONCE or len(batch) >= TEXTS_AT_ONCE:
            yield batch
            batch, size = [], 0
    yield batch


def _cut(text: str) -> list[str]:
    """Cut a text after white space, into pieces of CHARACTERS_AT_ONCE characters or
    fewer."""
    cuts = [0]
    while len(text) - cuts[-1] > CHARACTERS_AT_ONCE:
        start, stop = cuts[-1], cuts[-1] + CHARACTERS_AT_ONCE
        middle = start + CHARACTERS_AT_ONCE // 2
        places = (text.rfind(space, middle, stop) + 1 for space in ("\n", " "))
        cuts.append(next(filter(None, places), stop))
    return [text[start:end] for start, end in pairwise([*cuts, len(text)])]
