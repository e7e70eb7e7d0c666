"""The content of a record: text to be tokenized, or tokens."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .records import Record
from .tokens import MAX_TOKEN, Sentence, sentences_of_doc

_CONLLU_ID = re.compile(r"\d+([-.]\d+)?")


class Fields(NamedTuple):
    """Names of the fields of JSON lines that hold the text, the id and the tokens."""

    text: str = "text"
    id: str = "id"
    tokens: str = "tokens"


class Content(NamedTuple):
    """The content of a record.

    Attributes:
        id: Its id in the file, if it has one.
        text: Text to be tokenized; None if the file has tokens.
        sentences: Its tokens, with their places in the text.
    """

    id: str | None
    text: str | None
    sentences: list[Sentence]


def _decoded(record: Record) -> str:
    text: str = record.data.decode("utf-8")
    return text if record.position else text.removeprefix("\ufeff")


def _lines(record: Record) -> list[str]:
    return _decoded(record).replace("\r\n", "\n").split("\n")


def read_text(record: Record) -> Content:
    """Read a line of text. Raises ValueError if it is not text."""
    text = _decoded(record)
    if "\0" in text:
        raise ValueError("a zero byte")
    return Content(None, text, [])


def read_json(record: Record, fields: Fields) -> Content:
    """Read a JSON object. Raises ValueError, TypeError, KeyError or RecursionError if
    it is damaged or has no text."""
    found = json.loads(_decoded(record))
    if not isinstance(found, dict):
        raise TypeError("not a JSON object")
    name = found.get(fields.id)
    name = None if name is None else clean(str(name))
    tokens = found.get(fields.tokens)
    if tokens is None:
        if fields.text not in found:
            known = ", ".join(map(repr, list(found)[:8])) or "none"
            raise KeyError(f"there is no field {fields.text!r}; its fields are {known}")
        return Content(name, clean(found[fields.text]), [])
    if not isinstance(tokens, list):
        raise TypeError(f"'{fields.tokens}' is not a list")
    rows = tokens if any(isinstance(row, list) for row in tokens) else [tokens]
    if not all(isinstance(row, list) for row in rows):
        raise TypeError(f"'{fields.tokens}' has lists and others")
    return Content(
        name, None, joined([[_form(token) for token in row] for row in rows])
    )


def _form(token: Any) -> Any:
    """Return the text of a token. A token of Prodigy is an object with the text."""
    return token.get("text") if isinstance(token, dict) else token


def read_conllu(record: Record) -> Content:
    """Read a sentence of CoNLL-U: its syntactic words, and their places in its `#
    text`. Raises ValueError if it is damaged."""
    name, text, ended = None, None, False
    words: list[_Word] = []
    open_until = ""  # number of the last word of a multiword token
    for line in _lines(record):
        if line and ended:  # two sentences would be read as one
            raise ValueError(f"white space in an empty line before {line[:80]!r}")
        if line.startswith("#"):
            key, _, value = line[1:].partition("=")
            name = value.strip() if key.strip() == "sent_id" else name
            text = value.strip() if key.strip() == "text" else text
        elif line.strip():
            number, *fields = line.split("\t")
            if not _CONLLU_ID.fullmatch(number) or not fields:
                raise ValueError(f"not a line of CoNLL-U: {line[:80]!r}")
            space = "SpaceAfter=No" not in fields[-1]
            if "-" in number:
                words.append(_Word(fields[0], space, []))
                open_until = number.partition("-")[2]
            elif "." in number:
                continue  # an empty node, which is not in the text
            elif open_until:
                words[-1].parts.append(fields[0])
                open_until = "" if number == open_until else open_until
            else:
                words.append(_Word(fields[0], space, [fields[0]]))
        else:
            ended = bool(words)
    sentence = _placed(words, text)
    return Content(name, None, [sentence] if sentence.tokens else [])


class _Word(NamedTuple):
    """A word of the text, whether a space follows it, and its syntactic words
    (parts)."""

    form: str
    space: bool
    parts: list[str]


def _placed(words: Sequence[_Word], text: str | None) -> Sentence:
    """Return the syntactic words and their places in a text.

    If there is no text, or the words are not in it in their order, places are those in
    the text that syntactic words and `SpaceAfter=No` make. `spacy convert` makes the
    same text.
    """
    sentence = Sentence([], [], [])
    begin = 0
    for form, _, parts in words:
        start = -1 if text is None else text.find(form, begin)
        if start < 0 or (text or "")[begin:start].strip():
            return _joined_words(words)
        begin = start + len(form)
        # If syntactic words are not spelled as in the text ("zum" is "zu" and "dem"),
        # each of them gets the place of the whole word.
        at, in_order = start, "".join(parts) == form
        for part in parts:
            sentence.tokens.append(part[:MAX_TOKEN])
            sentence.starts.append(at if in_order else start)
            at += len(part)
            sentence.ends.append(at if in_order else begin)
    return sentence


def _joined_words(words: Sequence[_Word]) -> Sentence:
    row = [part for word in words for part in word.parts]
    spaces = [
        word.space and i == len(word.parts)
        for word in words
        for i in range(1, len(word.parts) + 1)
    ]
    return next(iter(joined([row], spaces)), Sentence([], [], []))


def read_naively(record: Record) -> Content:
    """Read a sentence of CoNLL-U as version 0.2 did, with the places that plans of
    format 2 have. The lines of multiword tokens and `# text` are ignored."""
    name = read_conllu(record).id
    rows = [line.split("\t") for line in _lines(record)]
    rows = [row for row in rows if row[0].isdigit()]
    spaces = ["SpaceAfter=No" not in row[-1] for row in rows]
    return Content(name, None, joined([[row[1] for row in rows]], spaces))


def read_doc(record: Record) -> Content:
    """Read a Doc."""
    return Content(None, None, list(sentences_of_doc(record.data)))


def readers(
    fields: Fields, *, naive: bool = False
) -> dict[str, Callable[[Record], Content]]:
    """Return, for each kind of file, the function that reads a record.

    Args:
        fields: Names of the fields of JSON lines.
        naive: Whether to read CoNLL-U by `read_naively`.
    """
    return {
        "text": read_text,
        "jsonl": lambda record: read_json(record, fields),
        "conllu": read_naively if naive else read_conllu,
        "spacy": read_doc,
    }


def clean(text: str) -> str:
    """Replace lone surrogates, which JSON has and UTF-8 has not."""
    if not isinstance(text, str):
        raise TypeError(f"a text of type {type(text).__name__}")
    return text.encode("utf-8", "replace").decode("utf-8")


def joined(rows: list[list[str]], spaces: list[bool] | None = None) -> list[Sentence]:
    """Return sentences of tokens, with their places in the text that the tokens make.

    Args:
        rows: The tokens of each sentence.
        spaces: Whether a space follows each token of one sentence; None for a space
            after every token.
    """
    sentences, at = [], 0
    for row in rows:
        sentence = Sentence([], [], [])
        for i, word in enumerate(map(clean, row)):
            sentence.tokens.append(word[:MAX_TOKEN])
            sentence.starts.append(at)
            sentence.ends.append(at + len(word))
            at += len(word) + (spaces is None or spaces[i])
        if sentence.tokens:
            sentences.append(sentence)
    return sentences
