"""Text files -> sentences of tokens, by spaCy's tokenizers: the one file of the trainer
that imports spaCy, and only where such a tokenizer is asked for."""

import io
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import IO, Any

from ..errors import Errors, Warnings
from ..files import check_plain, coded
from .unpack import DAMAGED, UNPACK

Tokenize = Callable[[Iterable[str]], Iterator[list[str]]]

JSON_LINES, DOCS = (".jsonl", ".ndjson"), ".spacy"
LINES_AT_ONCE = 2000
# Longer lines are read in pieces, longer tokens lose their end: a biLM reads no more of
# a word than its first 48 bytes, and no file may decide how much memory is taken.
MAX_LINE, MAX_TOKEN = 100_000, 1000
MAX_JSON_LINE = 32_000_000  # which can't be read in pieces
_LONG_WORD = re.compile(rf"(?<!\S)\S{{{MAX_TOKEN + 1},}}")
_ENDS = frozenset(".!?…。！？．؟।")


def kind_of(path: Path) -> str:
    """Return the suffix of a file in small letters, of a packed one what it will have
    when it is unpacked."""
    packed = path.suffix.lower() in UNPACK
    return Path(path.stem if packed else path.name).suffix.lower()


def read_lines(
    path: Path, progress: Callable[[int], object] = lambda n_bytes: None
) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file, or of the field `text` of every object of a
    `.jsonl` file, or the sentences of the Docs of a `.spacy` file, a space between two
    tokens. `.gz`, `.xz`, `.bz2` and `.zst` are unpacked, empty lines left out.

    Args:
        path: The file.
        progress: Called with the number of bytes read since the last call.

    Raises:
        OSError: [EL030] The file can't be read.
        ValueError: [EL030] A `.spacy` file is damaged; [EL031] the file is not UTF-8
            text; [EL040] a line is not such an object.
    """
    unpack = UNPACK.get(path.suffix.lower())
    is_docs = path.suffix.lower() == DOCS
    read = _json_lines if kind_of(path) in JSON_LINES else _pieces
    number = told = 0
    try:
        check_plain(path)
        with path.open("rb") as file:
            unpacked = unpack(file) if unpack else file
            text = io.TextIOWrapper(unpacked, encoding="utf-8-sig")
            for number, line in _docs(file, path) if is_docs else read(text, path):
                if "\0" in line:
                    problem = "a zero byte"
                    said = Errors.EL031.format(path=path, line=number, error=problem)
                    raise ValueError(said)
                if line := line.strip():
                    yield line
                if file.tell() > told:
                    progress(file.tell() - told)
                    told = file.tell()
    except UnicodeDecodeError as error:
        message = Errors.EL031.format(path=path, line=number + 1, error=error)
        raise ValueError(message) from error
    except DAMAGED as error:
        raise OSError(Errors.EL030.format(path=path, error=error)) from error


def _pieces(text: IO[str], path: Path) -> Iterator[tuple[int, str]]:
    """Yield numbered lines, a long one in pieces that end between words."""
    number, warned, rest = 1, 0, ""
    while line := rest + text.readline(MAX_LINE - len(rest)):
        rest = ""
        if line.endswith("\n") or len(line) < MAX_LINE:
            yield number, line
            number += 1
            continue
        if warned != number:
            warned = number
            message = Warnings.ELW05.format(path=path, line=number, length=MAX_LINE)
            warnings.warn(message, stacklevel=2)
        head, _, tail = line.rpartition(" ")
        if len(tail) < MAX_LINE // 2:
            line, rest = head, tail
        yield number, line


def _json_lines(text: IO[str], path: Path) -> Iterator[tuple[int, str]]:
    lines = iter(lambda: text.readline(MAX_JSON_LINE), "")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            if len(line) == MAX_JSON_LINE:
                raise ValueError(f"it has more than {MAX_JSON_LINE:,} characters")
            found = json.loads(line)["text"]
            if not isinstance(found, str):
                raise TypeError(f"'text' is of type {type(found).__name__}")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            message = Errors.EL040.format(path=path, line=number, error=repr(error))
            raise ValueError(message) from error
        # JSON can spell half a character (a lone surrogate), which no text file can.
        clean = found.encode("utf-8", "replace").decode("utf-8")
        for _, piece in _pieces(io.StringIO(clean), path):
            yield number, piece


def _docs(file: IO[bytes], path: Path) -> Iterator[tuple[int, str]]:
    """Yield the sentences of Docs, numbered by Doc."""
    from .docs import sentences_of

    with coded(Errors.EL030, path):
        for number, sentence in sentences_of(file):
            line = " ".join(token.text for token in sentence)
            for _, piece in _pieces(io.StringIO(line), path):
                yield number, piece


def tokenize_with(lang: str, tokenizer: str, sentences: bool) -> Tokenize:
    """Return a function from lines to sentences of tokens, white space left out.

    Args:
        lang: Language of spaCy's tokenizer.
        tokenizer: "spacy", or "whitespace" for text that is tokenized already.
        sentences: Whether lines are split at sentence ends.

    Raises:
        ValueError: [EL032] There is no such language or tokenizer.
    """
    if tokenizer not in ("spacy", "whitespace"):
        problem = "the tokenizer is 'spacy' or 'whitespace'"
        raise ValueError(Errors.EL032.format(lang=tokenizer, error=problem))
    if tokenizer == "whitespace" and not sentences:
        return lambda lines: (t for line in lines if (t := _cut(line.split())))
    nlp = _blank(lang)
    if sentences:
        nlp.add_pipe("sentencizer")

    def read(line: str) -> list[Any]:
        if tokenizer == "spacy":
            return [piece for _, piece in short_words(line)]
        from spacy.tokens import Doc

        return [Doc(nlp.vocab, words=line.split())]

    def tokenize(lines: Iterable[str]) -> Iterator[list[str]]:
        lines = iter(lines)
        while chunk := list(islice(lines, LINES_AT_ONCE)):
            with nlp.memory_zone():  # or every new word would stay in memory
                for doc in nlp.pipe(chain.from_iterable(map(read, chunk))):
                    split = doc.has_annotation("SENT_START")
                    for sentence in doc.sents if split else [doc]:
                        if tokens := _cut(t.text for t in sentence if not t.is_space):
                            yield tokens

    return tokenize


def _blank(lang: str) -> Any:
    """Return an empty pipeline of a language."""
    import spacy

    try:
        nlp = spacy.blank(lang)
    except ImportError as error:
        # spaCy's "can't import language", or what its tokenizer needs is missing.
        if "E048" not in str(error) and lang not in ("ja", "ko", "zh", "th", "vi"):
            raise
        raise ValueError(Errors.EL032.format(lang=lang, error=error)) from error
    nlp.max_length = 1 << 40  # nothing here needs memory beyond the line
    return nlp


def short_words(text: str) -> list[tuple[int, str]]:
    """Return pieces of a text in which no word is longer than MAX_TOKEN, and where each
    begins. (The time of spaCy's tokenizer grows with the square of a word's length.)
    They are cut at the end of a sentence, as in languages that set no spaces, or after
    what is neither letter nor digit, if there is any."""
    cuts = [0]
    for match in _LONG_WORD.finditer(text):
        start = match.start()
        while match.end() - start > MAX_TOKEN:
            # How far from the end of a piece the place is, in its second half.
            word = text[start : start + MAX_TOKEN][: MAX_TOKEN // 2 - 1 : -1]
            ends = (i for i, c in enumerate(word) if c in _ENDS)
            others = (i for i, c in enumerate(word) if not c.isalnum())
            start += MAX_TOKEN - next(chain(ends, others), 0)
            cuts.append(start)
    places = pairwise([*cuts, len(text)])
    return [(start, text[start:end]) for start, end in places if end > start]


def _cut(tokens: Iterable[str]) -> list[str]:
    return [token[:MAX_TOKEN] for token in tokens]


def read_sentences(
    paths: Iterable[Path],
    *,
    lang: str,
    tokenizer: str = "spacy",
    sentences: bool = True,
) -> Iterator[list[str]]:
    """Yield all sentences of text files, in order. Raises as `read_lines` and
    `tokenize_with`."""
    tokenize = tokenize_with(lang, tokenizer, sentences)
    for path in paths:
        yield from tokenize(read_lines(path))
