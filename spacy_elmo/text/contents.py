"""The content of records that have fields: a JSON object, a sentence of CoNLL-U."""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from .kinds import CONLLU_ID
from .tokens import MAX_TOKEN, Reading, Sentence


class Content(NamedTuple):
    """A document, or a piece of a long one.

    Attributes:
        id: Its id in the file, if it has one.
        text: Text to be tokenized; None if the file has tokens.
        sentences: Its tokens, with their places in the document.
        position: As of `Record`.
        begins: As of `Record`.
    """

    id: str | None = None
    text: str | None = None
    sentences: Sequence[Sentence] = ()
    position: int = 0
    begins: bool = True


class BadLine(ValueError):
    """A line of a record is not of its kind.

    Attributes:
        number: Number of the line in the record, from 0.
    """

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number


def content_of_json(line: str, reading: Reading, *, naive: bool) -> Content:
    """Read a JSON object: its tokens or, if it has none, its text.

    Tokens of annotation tools say where they are in the text. Other tokens are placed
    in the text that they make.

    Args:
        line: The object.
        reading: The names of its fields.
        naive: Whether all tokens are placed in the text that they make, as version 0.2
            did.

    Raises:
        ValueError, TypeError, KeyError or RecursionError: It is no such object.
    """
    found = json.loads(line)
    if not isinstance(found, dict):
        raise TypeError("not a JSON object")
    name = found.get(reading.id_field)
    name = None if name is None else clean(str(name))
    text_field, tokens_field = reading.text_field, reading.tokens_field
    tokens, text = found.get(tokens_field), found.get(text_field)
    if tokens is None or (tokens == [] and text and not naive):
        if text_field not in found:
            known = ", ".join(map(repr, list(found)[:8])) or "none"
            raise KeyError(f"there is no field {text_field!r}; its fields are {known}")
        return Content(name, clean(text))
    if not isinstance(tokens, list):
        raise TypeError(f"'{tokens_field}' is not a list")
    placed = None if naive else _placed_tokens(tokens, text, found.get("sents"))
    if placed is not None:
        return Content(name, sentences=placed)
    rows = tokens if any(isinstance(row, list) for row in tokens) else [tokens]
    if not all(isinstance(row, list) for row in rows):
        raise TypeError(f"'{tokens_field}' has lists and others")
    # A token of Prodigy is an object with the text.
    forms = [[t.get("text") if isinstance(t, dict) else t for t in row] for row in rows]
    return Content(name, sentences=joined(forms))


def _placed_tokens(tokens: list[Any], text: Any, sents: Any) -> list[Sentence] | None:
    """Return the sentences of tokens that have places in a text, as those of Prodigy
    and of `Doc.to_json`, which says where sentences are; None if not all have."""
    spans: list[Any] = [_span(token, text) for token in tokens]
    if not spans or None in spans or any(a[1] > b[0] for a, b in pairwise(spans)):
        return None
    firsts = {s.get("start") for s in sents or [] if isinstance(s, dict)}
    sentences = [Sentence([], [], [])]
    for token, (start, end) in zip(tokens, spans):
        form = clean(token.get("text", text[start:end]))
        if start in firsts and sentences[-1].tokens:
            sentences.append(Sentence([], [], []))
        if form and not form.isspace():
            sentences[-1].tokens.append(form[:MAX_TOKEN])
            sentences[-1].starts.append(start)
            sentences[-1].ends.append(end)
    return [sentence for sentence in sentences if sentence.tokens]


def _span(token: Any, text: Any) -> tuple[int, int] | None:
    """Return where a token says that it is in a text, None if it is not there."""
    if not (isinstance(token, dict) and isinstance(text, str)):
        return None
    start, end = token.get("start"), token.get("end")
    if not (isinstance(start, int) and isinstance(end, int)):
        return None
    return (start, end) if 0 <= start <= end <= len(text) else None


def content_of_conllu(text: str, *, naive: bool) -> Content:
    """Read a sentence of CoNLL-U: its syntactic words, and their places in its `#
    text`.

    Args:
        text: The lines of the sentence.
        naive: Whether the lines of multiword tokens and `# text` are ignored, as
            version 0.2 did. Words are then placed in the text that they make.

    Raises:
        BadLine: A line is not CoNLL-U, or belongs to another sentence.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    content = _read_conllu(lines)
    if not naive:
        return content
    rows = [line.split("\t") for line in lines]
    rows = [row for row in rows if row[0].isdigit()]
    spaces = ["SpaceAfter=No" not in row[-1] for row in rows]
    return content._replace(sentences=joined([[row[1] for row in rows]], spaces))


def _read_conllu(lines: Iterable[str]) -> Content:
    name, text, ended = None, None, False
    words: list[_Word] = []
    open_until = ""  # number of the last word of a multiword token
    for row, line in enumerate(lines):
        if line and ended:  # two sentences would be read as one
            problem = f"white space in an empty line before {line[:80]!r}"
            raise BadLine(row, problem)
        if line.startswith("#"):
            key, _, value = line[1:].partition("=")
            name = value.strip() if key.strip() == "sent_id" else name
            text = value.strip() if key.strip() == "text" else text
        elif line.strip():
            number, *fields = line.split("\t")
            if not CONLLU_ID.fullmatch(number) or not fields:
                raise BadLine(row, f"not a line of CoNLL-U: {line[:80]!r}")
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
    return Content(name, sentences=[sentence] if sentence.tokens else [])


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
    spaces = [s for w in words for s in ([False] * len(w.parts) + [w.space])[1:]]
    return next(iter(joined([row], spaces)), Sentence([], [], []))


def clean(text: Any) -> str:
    """Replace lone surrogates, which JSON has and UTF-8 has not."""
    if not isinstance(text, str):
        raise TypeError(f"a text of type {type(text).__name__}")
    return text.encode("utf-8", "replace").decode("utf-8")


def joined(rows: list[list[Any]], spaces: list[bool] | None = None) -> list[Sentence]:
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
