"""Records -> parts of documents, in sentences.

A sentence here is what the biLM reads at once: a sentence of the text, or a window of a
longer one.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import spacy
from spacy.attrs import IDX, LENGTH, SENT_START
from spacy.lang.lex_attrs import is_punct
from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from ..errors import Errors
from ..text.reading import MAX_TOKEN
from .records import Record

CHARACTERS_AT_ONCE, TEXTS_AT_ONCE = 1 << 17, 1000
MAX_WORDS = 100_000  # that a tokenizer keeps
_CONLLU_ID = re.compile(r"\d+([-.]\d+)?")
_WORD = re.compile(r"\S+")
_LONG_WORD = re.compile(rf"(?<!\S)\S{{{MAX_TOKEN + 1},}}")
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
        rows = tokens if any(isinstance(row, list) for row in tokens) else [tokens]
        if not all(isinstance(row, list) for row in rows):
            raise TypeError(f"'{reading.tokens_field}' has lists and others")
        return name, None, _joined(rows)


def _text(record: Record) -> _Content:
    text = record.data.decode("utf-8")
    if "\0" in text:
        raise ValueError("a zero byte")
    return None, text if record.position else text.removeprefix("\ufeff"), []


def _conllu(record: Record) -> _Content:
    name, words, spaces = None, [], []
    for line in record.data.decode("utf-8").replace("\r\n", "\n").split("\n"):
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
    for match in _LONG_WORD.finditer(text):
        start = match.start()
        while match.end() - start > MAX_TOKEN:
            word = reversed(text[start : start + MAX_TOKEN])
            last = next((i for i, c in enumerate(word) if not c.isalnum()), 0)
            start += MAX_TOKEN - (last if last < MAX_TOKEN // 2 else 0)
            cuts.append(start)
    places = pairwise([*cuts, len(text)])
    return [(start, text[start:end]) for start, end in places if end > start]


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
