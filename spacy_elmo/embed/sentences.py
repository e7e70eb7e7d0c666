"""Records -> parts of documents, in sentences.

A sentence here is what the biLM reads at once: a sentence of the text, or a window of a
longer one.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import spacy
from spacy.attrs import IDX, IS_PUNCT, IS_SPACE, LENGTH, SENT_START
from spacy.language import Language
from spacy.tokens import Doc

from ..errors import Errors
from ..text.reading import MAX_TOKEN
from .records import Record

CHARACTERS_AT_ONCE, TEXTS_AT_ONCE = 1 << 17, 1000
MAX_WORDS = 100_000  # that a tokenizer keeps
_NO_LIMIT = 1 << 40
_CONLLU_ID = re.compile(r"\d+([-.]\d+)?")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Reading:
    """How text becomes sentences.

    Attributes:
        lang: Language of spaCy's tokenizer and rules for sentence ends.
        tokenizer: "spacy", or "whitespace" for tokens that are separated already.
        split: Whether lines are split at sentence ends.
        pipeline: A spaCy pipeline that does all of this instead.
        pipeline_hash: Hash of its files.
        text_field: Field of JSON lines with the text.
        id_field: Field with the id.
        tokens_field: Field with the tokens, or a list of tokens per sentence.
        window: Tokens that the biLM reads at once at most.
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


class Sentence(NamedTuple):
    """Tokens, and where each starts and ends, in characters of its part."""

    tokens: list[str]
    starts: list[int]
    ends: list[int]


class Part(NamedTuple):
    """A document (its first part if `begins`), with its id in the input, if any."""

    begins: bool
    id: str | None
    position: int
    sentences: list[Sentence]


# A record's id, its text if that is to be tokenised, or else its sentences.
_Content = tuple[str | None, str | None, list[Sentence]]


class Reader:
    """Makes sentences of records. Raises ValueError [EL032] for a language or tokenizer
    that there is not."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._tokenize = _tokenizer(reading)
        self._convert: dict[str, Callable[[Record], _Content]] = {
            "text": _text,
            "jsonl": self._json,
            "conllu": _conllu,
            "spacy": lambda record: (None, None, list(_sentences_of(record.data))),
        }

    def parts(self, records: Iterable[Record], kind: str, path: str) -> Iterator[Part]:
        """Yield the parts of documents that records of one input hold.

        Raises:
            ValueError: [EL205] for a record that is damaged.
        """
        waiting: list[tuple[Record, int, _Content]] = []
        size = offset = 0
        for record in records:
            try:
                content = self._convert[kind](record)
            except (ValueError, LookupError, TypeError, RecursionError) as error:
                said = Errors.EL205.format(path=path, at=record.position, problem=error)
                raise ValueError(said) from error
            offset = 0 if record.begins else offset
            waiting.append((record, offset, content))
            n_characters = len(content[1] or "")
            offset, size = offset + n_characters, size + n_characters
            if size >= CHARACTERS_AT_ONCE or len(waiting) >= TEXTS_AT_ONCE:
                yield from self._finish(waiting)
                waiting, size = [], 0
        yield from self._finish(waiting)

    def _finish(self, waiting: list[tuple[Record, int, _Content]]) -> Iterator[Part]:
        """Tokenise what is not yet tokenised, all at once, and cut it into windows."""
        rows = [_short_words(text or "") for _, _, (_, text, _) in waiting]
        tokenized = iter(self._tokenize([text for row in rows for _, text in row]))
        for (record, offset, (name, _, ready)), row in zip(waiting, rows):
            sentences = list(ready)
            for start, _ in row:
                moved = [_moved(s, offset + start) for s in next(tokenized)]
                sentences += moved
            windows = [w for s in sentences for w in _windows(s, self.reading.window)]
            yield Part(record.begins, name, record.position, windows)

    def _json(self, record: Record) -> _Content:
        reading, found = self.reading, json.loads(record.data)
        if not isinstance(found, dict):
            raise TypeError("not a JSON object")
        name = found.get(reading.id_field)
        name = None if name is None else _clean(str(name))
        tokens = found.get(reading.tokens_field)
        if tokens is None:
            return name, _clean(found[reading.text_field]), []
        if not isinstance(tokens, list):
            raise TypeError(f"'{reading.tokens_field}' is not a list")
        rows = tokens if tokens and isinstance(tokens[0], list) else [tokens]
        return name, None, _joined(rows)


def _text(record: Record) -> _Content:
    text = record.data.decode("utf-8")
    if "\0" in text:
        raise ValueError("a zero byte")
    return None, text if record.position else text.removeprefix("\ufeff"), []


def _conllu(record: Record) -> _Content:
    name, words, spaces = None, [], []
    for line in record.data.decode("utf-8").split("\n"):
        if line.startswith("#"):
            key, _, value = line[1:].partition("=")
            name = value.strip() if key.strip() == "sent_id" else name
        elif line.strip():
            fields = line.split("\t")
            if not _CONLLU_ID.fullmatch(fields[0]) or len(fields) < 2:
                raise ValueError(f"not a line of CoNLL-U: {line[:80]!r}")
            if fields[0].isdigit():  # neither a multiword token nor an empty node
                words.append(fields[1])
                spaces.append("SpaceAfter=No" not in fields[-1])
    return name, None, _joined([words], spaces)


def _clean(text: str) -> str:
    """Replace lone surrogates, which JSON can spell and UTF-8 can't."""
    if not isinstance(text, str):
        raise TypeError(f"a text of type {type(text).__name__}")
    return text.encode("utf-8", "replace").decode("utf-8")


def _joined(rows: list[list[str]], spaces: list[bool] | None = None) -> list[Sentence]:
    """Return sentences of separate tokens, placed in the text that they make."""
    sentences, at = [], 0
    for row in rows:
        sentence = Sentence([], [], [])
        for i, word in enumerate(map(_clean, row)):
            sentence.tokens.append(word[:MAX_TOKEN])
            sentence.starts.append(at)
            sentence.ends.append(at + len(word))
            at += len(word) + (spaces is None or spaces[i])
        if sentence.tokens:
            sentences.append(sentence)
    return sentences


def _short_words(text: str) -> list[tuple[int, str]]:
    """Return pieces of a text in which no word is longer than MAX_TOKEN, and where each
    begins. (The time of spaCy's tokenizer grows with the square of a word's length.)
    They are cut after what is neither letter nor digit, if there is any."""
    cuts = [0]
    for match in _WORD.finditer(text):
        start = match.start()
        while match.end() - start > MAX_TOKEN:
            word = reversed(text[start : start + MAX_TOKEN])
            last = next((i for i, c in enumerate(word) if not c.isalnum()), 0)
            start += MAX_TOKEN - (last if last < MAX_TOKEN // 2 else 0)
            cuts.append(start)
    places = pairwise([*cuts, len(text)])
    return [(start, text[start:end]) for start, end in places if end > start]


def _moved(sentence: Sentence, by: int) -> Sentence:
    tokens, starts, ends = sentence
    return Sentence(tokens, [s + by for s in starts], [e + by for e in ends])


def _windows(sentence: Sentence, window: int) -> Iterator[Sentence]:
    """Cut a sentence into pieces of nearly equal length, as spacy-elmo.Windows.v1."""
    n_tokens = len(sentence.tokens)
    n_pieces = -(-n_tokens // window)
    cuts = [i * (n_tokens // n_pieces) + min(i, n_tokens % n_pieces)
            for i in range(n_pieces + 1)]  # fmt: skip
    for start, end in pairwise(cuts):
        yield Sentence(*(values[start:end] for values in sentence))  # type: ignore[arg-type]


def _sentences_of(
    doc: Doc, places: list[tuple[int, int]] | None = None
) -> Iterator[Sentence]:
    """Yield the sentences of a Doc, or all of it where none are set; white space is not
    a token. places: start and end of each token, if the Doc's text is not the source.
    """
    if not len(doc):
        return
    text = doc.text
    columns = doc.to_array([IS_SPACE, IDX, LENGTH, SENT_START]).T.tolist()
    is_space, starts, lengths, sent_start = columns
    ends = [start + length for start, length in zip(starts, lengths)]
    texts = [text[start:end] for start, end in zip(starts, ends)]
    if places is not None:
        starts, ends = map(list, zip(*places))
    firsts = [i for i, value in enumerate(sent_start) if value == 1 and i > 0]
    for first, last in pairwise([0, *firsts, len(texts)]):
        rows = [i for i in range(first, last) if not is_space[i]]
        if rows:
            words = [texts[i][:MAX_TOKEN] for i in rows]
            yield Sentence(words, [starts[i] for i in rows], [ends[i] for i in rows])


def _separated(text: str) -> list[Sentence]:
    """Return the words between white space, if there are any, as one sentence."""
    places = [match.span() for match in _WORD.finditer(text)]
    words = [text[start:end][:MAX_TOKEN] for start, end in places]
    starts, ends = map(list, zip(*places)) if places else ([], [])
    return [Sentence(words, starts, ends)] if words else []


def _tokenizer(reading: Reading) -> Callable[[list[str]], list[list[Sentence]]]:
    if reading.tokenizer not in ("spacy", "whitespace"):
        problem = "the tokenizer is 'spacy' or 'whitespace'"
        raise ValueError(Errors.EL032.format(lang=reading.tokenizer, error=problem))
    if reading.pipeline is not None:
        nlp = spacy.load(reading.pipeline)
        nlp.max_length = _NO_LIMIT

        def tokenize(texts: list[str]) -> list[list[Sentence]]:
            with nlp.memory_zone():  # or every new word would stay in memory
                return [list(_sentences_of(doc)) for doc in nlp.pipe(texts)]

        return tokenize
    if reading.tokenizer == "whitespace" and not reading.split:
        return lambda texts: [_separated(text) for text in texts]
    return _Blank(reading)


class _Blank:
    """A language's tokenizer and, if asked for, its rules for sentence ends. It is made
    again when it knows many words, which would stay in memory: in spaCy's memory zones,
    which forget them after each batch, the tokenizer is twice as slow."""

    def __init__(self, reading: Reading) -> None:
        self._reading, self._nlp = reading, _blank(reading)

    def __call__(self, texts: list[str]) -> list[list[Sentence]]:
        if len(self._nlp.vocab) > MAX_WORDS:
            self._nlp = _blank(self._reading)
        if self._reading.tokenizer == "spacy":
            return [list(_sentences_of(doc)) for doc in self._nlp.pipe(texts)]
        places = [[match.span() for match in _WORD.finditer(t)] for t in texts]
        docs = (
            Doc(self._nlp.vocab, words=[text[start:end] for start, end in row])
            for text, row in zip(texts, places)
        )
        pairs = zip(self._nlp.pipe(docs), places)
        return [list(_sentences_of(doc, row)) for doc, row in pairs]


def _blank(reading: Reading) -> Language:
    try:
        nlp = spacy.blank(reading.lang)
    except ImportError as error:
        raise ValueError(Errors.EL032.format(lang=reading.lang, error=error)) from error
    # What tokenizer and sentencizer ask of a word; the others take most of the time.
    vocab: Any = nlp.vocab
    needed, getters = (IS_PUNCT, IS_SPACE), vocab.lex_attr_getters
    vocab.lex_attr_getters = {name: getters[name] for name in needed}
    nlp.max_length = _NO_LIMIT  # what it gets is short
    if reading.split:
        nlp.add_pipe("sentencizer")
    return nlp


def hash_of_pipeline(name: str) -> str:
    """Return the hash of all files of a spaCy pipeline. Raises OSError."""
    digest = hashlib.sha256()
    for path in sorted(Path(str(spacy.load(name).path)).rglob("*")):
        if path.is_file():
            digest.update(path.name.encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
