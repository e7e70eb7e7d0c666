"""Files of text -> documents in sentences of tokens: the one reader of text, for
training and for `embed`.

    files -> records -> contents -> tokens
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..bilm import UnicodeForm, in_form
from ..errors import Errors, Warnings
from .contents import Content, Fields, readers
from .files import TextFile, describe, files_of
from .records import MAX_PIECE, Record, Source, line_of, open_source
from .tokens import Sentence, Tokenize, tokenizer_of, tokenizer_of_pipeline

if TYPE_CHECKING:
    from spacy.tokens import Span

T = TypeVar("T")
TEXTS_AT_ONCE = 1000
CHARACTERS_AT_ONCE = 1 << 17  # of a text, that are tokenised together
RANGE = 4 * MAX_PIECE  # bytes of a file that are read at once


@dataclass(frozen=True)
class Reading:
    """How text becomes sentences.

    Attributes:
        lang: Language of spaCy's tokenizer.
        tokenizer: "spacy", or "whitespace" for tokens that are separated already.
        split: Whether lines are split at sentence ends.
        pipeline: A spaCy pipeline that does all of this instead.
        pipeline_hash: Hash of its files.
        text_field: Field of JSON lines with the text.
        id_field: Field with the id.
        tokens_field: Field with the tokens, or a list of tokens per sentence.
        window: Tokens that the biLM reads at once at most (of `embed`).
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
    """A document (its first part if `begins`), with its id in the file, if any."""

    begins: bool
    id: str | None
    position: int
    sentences: list[Sentence]


class Reader:
    """Makes sentences of the records of files. `naive`: as plans of format 2 ask for:
    sentences go on after the end of a line, and `contents.read_naively`.

    Raises:
        ValueError: [EL032] There is no such language or tokenizer. [EL209] The pipeline
            is another than that of the hash.
    """

    def __init__(self, reading: Reading, *, naive: bool = False) -> None:
        fields = Fields(reading.text_field, reading.id_field, reading.tokens_field)
        self._convert = readers(fields, naive=naive)
        self._tokenize = _tokenizer(reading, lines=not naive)

    def parts(self, source: Source, start: int, end: int) -> Iterator[Part]:
        """Yield the parts of documents that the records in a range of a file hold.
        Raises as `contents`."""
        offset, document = 0, source.file.document
        found = self.contents(source, start, end)
        for some in _batches(found, lambda pair: pair[1].text):
            texts = [content.text or "" for _, content in some]
            for (record, content), tokenized in zip(some, self._tokenize(texts)):
                offset = 0 if record.begins else offset
                sentences = [*content.sentences, *_moved(tokenized, offset)]
                offset += len(content.text or "")
                name = content.id or document
                yield Part(record.begins, name, record.position, sentences)

    def contents(
        self, source: Source, start: int, end: int
    ) -> Iterator[tuple[Record, Content]]:
        """Yield what the records in a range of a file hold, a long text in pieces.

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
    """Yield what a whole file holds, in order.

    Args:
        file: The file.
        reader: Makes contents of its records.
        progress: Called with the number of bytes on the disk that were read since the
            last call.

    Raises:
        ValueError, OSError: As `Reader.contents`.
    """
    source, start, told, has_warned = open_source(file), 0, 0, False
    try:
        while not source.at_end:
            for record, content in reader.contents(source, start, start + RANGE):
                if not (record.begins or has_warned or file.kind != "text"):
                    has_warned = True
                    _warn_of_long_line(file, record.position)
                yield content
            start, now = start + RANGE, source.stream.raw_position
            progress(now - told)
            told = now
    finally:
        source.close()


def _warn_of_long_line(file: TextFile, position: int) -> None:
    line = line_of(file, position)
    message = Warnings.ELW05.format(
        path=file.path, line=line, length=CHARACTERS_AT_ONCE
    )
    warnings.warn(message, stacklevel=4)


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
    """Yield all sentences of files of text, and of those in folders, in order.

    Args:
        paths: The files and folders.
        lang: As of `Reading`.
        kind: As of `describe`, for all files.
        tokenizer: As of `Reading`.
        sentences: `Reading.split`.
        keep: Of text that is to be tokenised, whether it is; for all if not given.
        form: Unicode form that text is turned to before it is tokenised, if any.

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
    """Yield the lines of a file's text without white space around them, or its
    sentences, a space between two tokens. Arguments and errors are those of `describe`;
    errors also those of `Reader.contents`."""
    reader = Reader(Reading(tokenizer="whitespace", split=False))
    for content in read_contents(describe(path, kind), reader):
        lines = (content.text or "").split("\n")
        yield from filter(None, map(str.strip, lines))
        yield from (" ".join(sentence.tokens) for sentence in content.sentences)


def read_spans(path: Path) -> Iterator["Span"]:
    """Yield the sentences of the Docs of a `.spacy` file, with their annotation; all of
    a Doc where no boundaries are set. Raises ValueError [EL220] if it is damaged,
    OSError [EL030] if it can't be read."""
    source = open_source(describe(path, "spacy"))
    try:
        while not source.at_end:
            for _, _, doc in source.read(0, 1 << 62):
                yield from doc.sents if doc.has_annotation("SENT_START") else [doc[:]]
    finally:
        source.close()


def _refusal(file: TextFile, record: Record, error: Exception) -> ValueError:
    """Return the error of a record that can't be read, with its place and the way
    out."""
    problem: object = error.args[0] if isinstance(error, KeyError) else error
    if file.kind == "spacy":
        return ValueError(Errors.EL220.format(path=file.path, error=problem))
    at = record.position
    message = {"jsonl": Errors.EL040, "conllu": Errors.EL205}.get(file.kind)
    if isinstance(error, UnicodeDecodeError):
        at, message = at + error.start, None
    line = line_of(file, at)
    said = {"path": file.path, "line": line, "error": problem, "problem": problem}
    return ValueError((message or Errors.EL031).format(**said))


def _tokenizer(reading: Reading, *, lines: bool) -> Tokenize:
    if reading.pipeline is not None:
        return tokenizer_of_pipeline(reading.pipeline, reading.pipeline_hash)
    return tokenizer_of(reading.lang, reading.tokenizer, reading.split, lines)


def _batches(
    found: Iterable[T], text_of: Callable[[T], str | None]
) -> Iterator[list[T]]:
    """Yield as many at once as are tokenised together."""
    batch: list[T] = []
    size = 0
    for each in found:
        batch.append(each)
        size += len(text_of(each) or "")
        if size >= CHARACTERS_AT_ONCE or len(batch) >= TEXTS_AT_ONCE:
            yield batch
            batch, size = [], 0
    yield batch


def _moved(sentences: Iterable[Sentence], by: int) -> Iterator[Sentence]:
    for sentence in sentences:
        tokens, starts, ends = sentence
        yield Sentence(tokens, [s + by for s in starts], [e + by for e in ends])


def _cut(text: str) -> list[str]:
    """Cut a text after white space, so that no piece is much longer than what is
    tokenised at once."""
    cuts = [0]
    while len(text) - cuts[-1] > CHARACTERS_AT_ONCE:
        start, stop = cuts[-1], cuts[-1] + CHARACTERS_AT_ONCE
        middle = start + CHARACTERS_AT_ONCE // 2
        places = (text.rfind(space, middle, stop) + 1 for space in ("\n", " "))
        cuts.append(next(filter(None, places), stop))
    return [text[start:end] for start, end in pairwise([*cuts, len(text)])]
