"""Text -> sentences of tokens, by spaCy's tokenizers. spaCy is imported only if text
has to be tokenized."""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import Errors

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

# Longer tokens lose their end. A biLM reads no more than the first 48 bytes of a word,
# and a file must not decide how much memory is taken.
MAX_TOKEN = 1000
MAX_WORDS = 100_000  # most words that a tokenizer keeps
_WORD = re.compile(r"\S+")
_LONG_WORD = re.compile(rf"(?<!\S)\S{{{MAX_TOKEN + 1},}}")
_LINE_END = re.compile(r"[\n\r]")
# Where a long word is best cut.
_CUT_AFTER = frozenset(".!?…。！？．؟।")


class Sentence(NamedTuple):
    """Tokens, and the start and the end of each in characters of the document."""

    tokens: list[str]
    starts: list[int]
    ends: list[int]

    def moved(self, by: int) -> "Sentence":
        """Return the sentence with all places moved by a number of characters."""
        if not by:
            return self
        tokens, starts, ends = self
        return Sentence(tokens, [s + by for s in starts], [e + by for e in ends])


@dataclass(frozen=True)
class Reading:
    """The settings of tokens and sentences.

    Attributes:
        lang: Language of spaCy's tokenizer.
        tokenizer: "spacy", or "whitespace" for tokens that spaces separate.
        split: Whether lines are split at the ends of sentences, by the rule of spaCy's
            sentencizer.
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


# A function from texts to the sentences of each text.
Tokenize = Callable[[Sequence[str]], Iterator[list[Sentence]]]


def tokenizer_of(reading: Reading, *, lines: bool = True) -> Tokenize:
    """Return a function from texts to the sentences of each text. White space is no
    token.

    Args:
        reading: The settings.
        lines: Whether sentences end at the end of a line. A pipeline sets all ends.

    Raises:
        ValueError: [EL032] There is no such language or tokenizer. [EL209] The files of
            the pipeline have another hash.
    """
    if reading.pipeline is not None:
        return _tokenizer_of_pipeline(reading.pipeline, reading.pipeline_hash)
    lang, split = reading.lang, reading.split
    if reading.tokenizer == "whitespace":
        return lambda texts: (list(_separated(text, split, lines)) for text in texts)
    if reading.tokenizer != "spacy":
        problem = "a tokenizer is 'spacy' or 'whitespace'"
        raise Errors.EL032(lang=reading.tokenizer, error=problem)
    nlp = _blank(lang)

    def tokenize(texts: Sequence[str]) -> Iterator[list[Sentence]]:
        nonlocal nlp
        for text in texts:
            # The vocabulary of nlp grows with every new word. spaCy's memory zones
            # would empty it after each batch, but make the tokenizer twice as slow.
            if len(nlp.vocab) > MAX_WORDS:
                nlp = _blank(lang)
            yield [
                sentence.moved(start)
                for start, piece in short_words(text)
                for sentence in _tokenized(nlp.tokenizer(piece), piece, split, lines)
            ]

    return tokenize


def _tokenizer_of_pipeline(pipeline: str, files_hash: str | None) -> Tokenize:
    import spacy

    nlp = spacy.load(pipeline)
    if files_hash not in (None, hash_of_pipeline(nlp)):
        raise Errors.EL209(model=pipeline)
    nlp.max_length = 1 << 40  # no limit: all texts here are short

    def tokenize(texts: Sequence[str]) -> Iterator[list[Sentence]]:
        rows = [short_words(text) for text in texts]
        with nlp.memory_zone():  # without it every new word would stay in memory
            docs = nlp.pipe(piece for row in rows for _, piece in row)
            for row in rows:
                yield [
                    s.moved(at) for at, _ in row for s in sentences_of_doc(next(docs))
                ]

    return tokenize


def hash_of_pipeline(nlp: "Language") -> str:
    """Return the hash of all files of a loaded spaCy pipeline."""
    digest = hashlib.sha256()
    for f in sorted(Path(str(nlp.path)).rglob("*")):
        if f.is_file():
            digest.update(f.name.encode() + hashlib.sha256(f.read_bytes()).digest())
    return digest.hexdigest()


def sentences_of_doc(doc: "Doc") -> Iterator[Sentence]:
    """Yield the sentences of a Doc. A Doc without boundaries is one sentence."""
    from spacy.attrs import SENT_START

    begins = doc.to_array([SENT_START]).ravel().tolist()
    firsts = [i for i, value in enumerate(begins) if value == 1 and i > 0]
    yield from _sentences(*_tokens_of(doc, doc.text), firsts)


def _tokenized(doc: "Doc", text: str, split: bool, lines: bool) -> Iterator[Sentence]:
    """Yield the sentences of a tokenized text."""
    texts, starts, ends = _tokens_of(doc, text)
    breaks: list[int] = []
    if lines and _LINE_END.search(text.rstrip()):
        breaks = [i for i, t in enumerate(texts, 1) if _LINE_END.search(t)]
    yield from _sentences(texts, starts, ends, _firsts(texts, split, breaks))


def _tokens_of(doc: "Doc", text: str) -> tuple[list[str], list[int], list[int]]:
    """Return the texts of a Doc's tokens, their starts and their ends. text: the text
    of the Doc, which `doc.text` would have to join again."""
    from spacy.attrs import IDX, LENGTH

    starts, lengths = doc.to_array([IDX, LENGTH]).T.tolist()
    ends = [start + length for start, length in zip(starts, lengths)]
    return [text[start:end] for start, end in zip(starts, ends)], starts, ends


def _sentences(
    texts: list[str], starts: list[int], ends: list[int], firsts: list[int]
) -> Iterator[Sentence]:
    """Yield sentences without white space.

    Args:
        texts: All tokens.
        starts: Start of each token.
        ends: End of each token.
        firsts: Number of the first token of each sentence after the first.
    """
    for first, last in pairwise([0, *firsts, len(texts)]):
        rows = [i for i in range(first, last) if not texts[i].isspace()]
        if rows:
            words = [texts[i][:MAX_TOKEN] for i in rows]
            yield Sentence(words, [starts[i] for i in rows], [ends[i] for i in rows])


def _separated(text: str, split: bool, lines: bool) -> Iterator[Sentence]:
    """Yield the sentences of a text whose tokens are separated by white space."""
    places = [match.span() for match in _WORD.finditer(text)]
    words = [text[start:end][:MAX_TOKEN] for start, end in places]
    starts, ends = [start for start, _ in places], [end for _, end in places]
    breaks: list[int] = []
    if lines and _LINE_END.search(text.rstrip()):
        gaps = enumerate(zip(ends, starts[1:]), 1)
        breaks = [i for i, (a, b) in gaps if _LINE_END.search(text, a, b)]
    # Without `_sentences`, which takes four times as long to leave out white space.
    for a, b in pairwise([0, *_firsts(words, split, breaks), len(words)]):
        if a < b:
            yield Sentence(words[a:b], starts[a:b], ends[a:b])


def _firsts(texts: list[str], split: bool, breaks: list[int]) -> list[int]:
    """Return the numbers of the tokens that begin a sentence, without the first token.

    By the rule of spaCy's sentencizer a sentence ends after one of its marks and the
    punctuation that follows. The sentencizer itself takes half as long as the
    tokenizer.

    Args:
        texts: All tokens.
        split: Whether sentences end by this rule.
        breaks: Tokens that begin a sentence in any case.
    """
    if not split:
        return breaks
    from spacy.lang.lex_attrs import is_punct

    marks = _sentence_marks()
    firsts: list[int] = []
    for start, stop in pairwise([0, *breaks, len(texts)]):
        firsts += [start] if start else []
        ended = False
        for i in range(start, stop):
            text = texts[i]
            if text in marks:
                ended = True
            elif ended and not is_punct(text):
                firsts.append(i)
                ended = False
    return firsts


@cache
def _sentence_marks() -> frozenset[str]:
    from spacy.pipeline import Sentencizer

    return frozenset(Sentencizer.default_punct_chars)


def _blank(lang: str) -> "Language":
    """Return an empty pipeline of a language."""
    import spacy

    try:
        nlp = spacy.blank(lang)
    except ImportError as error:
        # There is no such language, or a package that its tokenizer needs is missing.
        raise Errors.EL032(lang=lang, error=error) from error
    vocab: Any = nlp.vocab
    vocab.lex_attr_getters = {}  # unused here, and slower than the tokenizer
    return nlp


def short_words(text: str) -> list[tuple[int, str]]:
    """Cut a text into pieces in which no word is longer than MAX_TOKEN, since the time
    of spaCy's tokenizer grows with the square of a word's length. Return each piece
    with its start.

    A long word is cut at the end of a sentence, for languages without spaces, or else
    after a character that is neither letter nor digit, or else anywhere.
    """
    cuts = [0]
    for match in _LONG_WORD.finditer(text):
        start = match.start()
        while match.end() - start > MAX_TOKEN:
            # Find the place in the second half of the piece, from the end.
            word = text[start : start + MAX_TOKEN][: MAX_TOKEN // 2 - 1 : -1]
            ends = (i for i, c in enumerate(word) if c in _CUT_AFTER)
            others = (i for i, c in enumerate(word) if not c.isalnum())
            start += MAX_TOKEN - next(chain(ends, others), 0)
            cuts.append(start)
    places = pairwise([*cuts, len(text)])
    return [(start, text[start:end]) for start, end in places if end > start]
