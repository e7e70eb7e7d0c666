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
from spacy.attrs import IDX, LENGTH, SENT_START
from spacy.lang.lex_attrs import is_punct
from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from ..errors import Errors
from ..text import MAX_TOKEN, short_words
from .contents import (
    CHARACTERS_AT_ONCE,
    Content,
    Sentence,
    clean,
    cut_text,
    joined,
    read_conllu,
    read_text,
)
from .records import Record

TEXTS_AT_ONCE = 1000
MAX_WORDS = 100_000  # that a tokenizer keeps
_WORD = re.compile(r"\S+")
_ENDS = frozenset(Sentencizer.default_punct_chars)


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


class Part(NamedTuple):
    """A document (its first part if `begins`), with its id in the input, if any."""

    begins: bool
    id: str | None
    position: int
    sentences: list[Sentence]


class Reader:
    """Makes sentences of records. Raises ValueError [EL032] for a language or tokenizer
    that there is not, [EL209] if the pipeline is another than that of the hash."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._tokenize = _tokenizer(reading)
        self._convert: dict[str, Callable[[Record], Content]] = {
            "text": read_text,
            "jsonl": self._json,
            "conllu": read_conllu,
            "spacy": lambda record: (None, None, list(_sentences_of(record.data))),
        }

    def parts(self, records: Iterable[Record], kind: str, path: str) -> Iterator[Part]:
        """Yield the parts of documents that records of one input hold.

        Raises:
            ValueError: [EL205] for a record that is damaged.
        """
        waiting: list[tuple[Record, int, Content]] = []
        size = offset = 0
        for record, content in self._contents(records, kind, path):
            offset = 0 if record.begins else offset
            waiting.append((record, offset, content))
            n_characters = len(content[1] or "")
            offset, size = offset + n_characters, size + n_characters
            if size >= CHARACTERS_AT_ONCE or len(waiting) >= TEXTS_AT_ONCE:
                yield from self._finish(waiting)
                waiting, size = [], 0
        yield from self._finish(waiting)

    def _contents(
        self, records: Iterable[Record], kind: str, path: str
    ) -> Iterator[tuple[Record, Content]]:
        """Yield what records hold, a long text in pieces."""
        for record in records:
            try:
                name, text, sentences = self._convert[kind](record)
            except (ValueError, LookupError, TypeError, RecursionError) as error:
                problem: object = error
                if isinstance(error, KeyError):
                    problem = f"there is no field {error}"
                at = record.position
                said = Errors.EL205.format(path=path, at=at, problem=problem)
                raise ValueError(said) from error
            first, *others = [None] if text is None else cut_text(text)
            yield record, (name, first, sentences)
            for piece in others:
                yield record._replace(begins=False), (name, piece, [])

    def _finish(self, waiting: list[tuple[Record, int, Content]]) -> Iterator[Part]:
        """Tokenise what is not yet tokenised, all at once, and cut it into windows."""
        rows = [short_words(text or "") for _, _, (_, text, _) in waiting]
        tokenized = iter(self._tokenize([text for row in rows for _, text in row]))
        for (record, offset, (name, _, ready)), row in zip(waiting, rows):
            sentences = list(ready)
            for start, _ in row:
                moved = [_moved(s, offset + start) for s in next(tokenized)]
                sentences += moved
            windows = [w for s in sentences for w in _windows(s, self.reading.window)]
            yield Part(record.begins, name, record.position, windows)

    def _json(self, record: Record) -> Content:
        reading, found = self.reading, json.loads(record.data)
        if not isinstance(found, dict):
            raise TypeError("not a JSON object")
        name = found.get(reading.id_field)
        name = None if name is None else clean(str(name))
        tokens = found.get(reading.tokens_field)
        if tokens is None:
            return name, clean(found[reading.text_field]), []
        if not isinstance(tokens, list):
            raise TypeError(f"'{reading.tokens_field}' is not a list")
        rows = tokens if any(isinstance(row, list) for row in tokens) else [tokens]
        if not all(isinstance(row, list) for row in rows):
            raise TypeError(f"'{reading.tokens_field}' has lists and others")
        return name, None, joined(rows)


def hash_of_pipeline(nlp: Language) -> str:
    """Return the hash of all files of a spaCy pipeline that was loaded."""
    digest = hashlib.sha256()
    for f in sorted(Path(str(nlp.path)).rglob("*")):
        if f.is_file():
            digest.update(f.name.encode() + hashlib.sha256(f.read_bytes()).digest())
    return digest.hexdigest()


def _moved(sentence: Sentence, by: int) -> Sentence:
    if not by:
        return sentence
    tokens, starts, ends = sentence
    return Sentence(tokens, [s + by for s in starts], [e + by for e in ends])


def _windows(sentence: Sentence, window: int) -> Iterator[Sentence]:
    """Cut a sentence into pieces of nearly equal length, as spacy-elmo.Windows.v1."""
    n_tokens = len(sentence.tokens)
    n_pieces = -(-n_tokens // window)
    if n_pieces == 1:
        yield sentence
        return
    cuts = [i * (n_tokens // n_pieces) + min(i, n_tokens % n_pieces)
            for i in range(n_pieces + 1)]  # fmt: skip
    for start, end in pairwise(cuts):
        yield Sentence(*(values[start:end] for values in sentence))  # type: ignore[arg-type]


def _sentences_of(
    doc: Doc, text: str | None = None, *, split: bool = False
) -> Iterator[Sentence]:
    """Yield the sentences of a Doc, or all of it where none are set; white space is not
    a token. text: its text if that is at hand, since a Doc puts it together again.
    split: Find sentences."""
    text = doc.text if text is None else text
    starts, lengths, begins = doc.to_array([IDX, LENGTH, SENT_START]).T.tolist()
    ends = [start + length for start, length in zip(starts, lengths)]
    texts = [text[start:end] for start, end in zip(starts, ends)]
    if split:
        firsts = _firsts(texts)
    else:
        firsts = [i for i, value in enumerate(begins) if value == 1 and i > 0]
    for first, last in pairwise([0, *firsts, len(texts)]):
        rows = [i for i in range(first, last) if not texts[i].isspace()]
        if rows:
            words = [texts[i][:MAX_TOKEN] for i in rows]
            yield Sentence(words, [starts[i] for i in rows], [ends[i] for i in rows])


def _separated(text: str, *, split: bool) -> list[Sentence]:
    """Return the words between white space, if there are any, in sentences."""
    places = [match.span() for match in _WORD.finditer(text)]
    words = [text[start:end][:MAX_TOKEN] for start, end in places]
    starts, ends = map(list, zip(*places)) if places else ([], [])
    cuts = [0, *(_firsts(words) if split else []), len(words)]
    pairs = pairwise(cuts) if words else []
    return [Sentence(words[a:b], starts[a:b], ends[a:b]) for a, b in pairs]


def _firsts(texts: list[str]) -> list[int]:
    """Return the tokens that begin a further sentence by the rule of spaCy's
    sentencizer, which takes half as long as its tokenizer."""
    firsts, ended = [], False
    for i, text in enumerate(texts):
        if text in _ENDS:
            ended = True
        elif ended and not is_punct(text):
            firsts.append(i)
            ended = False
    return firsts


def _tokenizer(reading: Reading) -> Callable[[list[str]], list[list[Sentence]]]:
    split = reading.split
    if reading.tokenizer not in ("spacy", "whitespace"):
        problem = "the tokenizer is 'spacy' or 'whitespace'"
        raise ValueError(Errors.EL032.format(lang=reading.tokenizer, error=problem))
    if reading.pipeline is not None:
        nlp = spacy.load(reading.pipeline)
        if reading.pipeline_hash not in (None, hash_of_pipeline(nlp)):
            raise ValueError(Errors.EL209.format(model=reading.pipeline))
        nlp.max_length = 1 << 40  # what it gets is short

        def tokenize(texts: list[str]) -> list[list[Sentence]]:
            with nlp.memory_zone():  # or every new word would stay in memory
                return [list(_sentences_of(doc)) for doc in nlp.pipe(texts)]

        return tokenize
    if reading.tokenizer == "whitespace":
        return lambda texts: [_separated(text, split=split) for text in texts]
    nlp = _blank(reading.lang)

    def tokenize_blank(texts: list[str]) -> list[list[Sentence]]:
        nonlocal nlp
        # Words stay in memory. In spaCy's memory zones, which forget them after each
        # batch, the tokenizer is twice as slow.
        if len(nlp.vocab) > MAX_WORDS:
            nlp = _blank(reading.lang)
        return [
            list(_sentences_of(nlp.tokenizer(text), text, split=split))
            for text in texts
        ]

    return tokenize_blank


def _blank(lang: str) -> Language:
    try:
        nlp = spacy.blank(lang)
    except ImportError as error:
        raise ValueError(Errors.EL032.format(lang=lang, error=error)) from error
    vocab: Any = nlp.vocab
    vocab.lex_attr_getters = {}  # they take longer than the tokenizer, and nobody asks
    return nlp
