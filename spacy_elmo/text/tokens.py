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
_WORD, _WORD_OR_LINE_END = re.compile(r"\S+"), re.compile(r"\S+|[\n\r]")
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
    if reading.tokenizer not in ("spacy", "whitespace"):
        problem = "a tokenizer is 'spacy' or 'whitespace'"
        raise Errors.EL032(lang=reading.tokenizer, error=problem)
    nlp = _blank(reading.lang) if reading.tokenizer == "spacy" else None

    def tokens_of(text: str) -> Sentence:
        nonlocal nlp
        if nlp is None:
            return _separated(text, line_ends=lines)
        # The vocabulary of nlp grows with every new word. spaCy's memory zones would
        # empty it after each batch, but make the tokenizer twice as slow.
        if len(nlp.vocab) > MAX_WORDS:
            nlp = _blank(reading.lang)
        return _tokens_of(nlp.tokenizer(text), text)

    def sentences_of(text: str) -> Iterator[Sentence]:
        for start, piece in [(0, text)] if nlp is None else short_words(text):
            tokens, breaks = tokens_of(piece), []
            if lines and _LINE_END.search(piece.rstrip()):
                found = enumerate(tokens.tokens, 1)
                breaks = [i for i, token in found if _LINE_END.search(token)]
            firsts = _firsts(tokens.tokens, breaks) if reading.split else breaks
            for sentence in _split(tokens, firsts):
                yield sentence.moved(start)

    return lambda texts: (list(sentences_of(text)) for text in texts)


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
    return _split(_tokens_of(doc, doc.text), firsts)


def _tokens_of(doc: "Doc", text: str) -> Sentence:
    """Return all tokens of a Doc. text: the text of the Doc, which `doc.text` would
    have to join again."""
    from spacy.attrs import IDX, LENGTH

    starts, lengths = doc.to_array([IDX, LENGTH]).T.tolist()
    ends = [start + length for start, length in zip(starts, lengths)]
    tokens = [text[start:end][:MAX_TOKEN] for start, end in zip(starts, ends)]
    return Sentence(tokens, starts, ends)


def _separated(text: str, *, line_ends: bool) -> Sentence:
    """Return the tokens of a text in which white space separates them. If `line_ends`,
    the ends of lines are tokens, too."""
    pattern = _WORD_OR_LINE_END if line_ends else _WORD
    places = [match.span() for match in pattern.finditer(text.rstrip())]
    tokens = [text[start:end][:MAX_TOKEN] for start, end in places]
    return Sentence(tokens, [start for start, _ in places], [end for _, end in places])


def _split(tokens: Sentence, firsts: list[int]) -> Iterator[Sentence]:
    """Yield sentences without white space. firsts: number of the first token of each
    sentence after the first."""
    texts, starts, ends = tokens
    for a, b in pairwise([0, *firsts, len(texts)]):
        sentence = Sentence(texts[a:b], starts[a:b], ends[a:b])
        if any(map(str.isspace, sentence.tokens)):
            rows = [i for i in range(a, b) if not texts[i].isspace()]
            words = [texts[i] for i in rows]
            sentence = Sentence(
                words, [starts[i] for i in rows], [ends[i] for i in rows]
            )
        if sentence.tokens:
            yield sentence


def _firsts(texts: list[str], breaks: list[int]) -> list[int]:
    """Return the numbers of the tokens that begin a sentence, without the first token.

    By the rule of spaCy's sentencizer a sentence ends after one of its marks and the
    punctuation that follows. The sentencizer itself takes half as long as the
    tokenizer.

    Args:
        texts: All tokens.
        breaks: Tokens that begin a sentence in any case.
    """
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
