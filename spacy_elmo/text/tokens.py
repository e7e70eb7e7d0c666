"""Text -> sentences of tokens, by spaCy's tokenizers. spaCy is imported only if text
has to be tokenized."""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
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


# A function from texts to the sentences of each text.
Tokenize = Callable[[Sequence[str]], Iterator[list[Sentence]]]


def tokenizer_of(
    lang: str, tokenizer: str, split: bool, lines: bool = True
) -> Tokenize:
    """Return a function from texts to the sentences of each text. White space is no
    token.

    Args:
        lang: Language of spaCy's tokenizer.
        tokenizer: "spacy", or "whitespace" for tokens that spaces separate.
        split: Whether sentences end by the rule of spaCy's sentencizer.
        lines: Whether sentences end at the end of a line.

    Raises:
        ValueError: [EL032] There is no such language or tokenizer.
    """
    if tokenizer not in ("spacy", "whitespace"):
        problem = "a tokenizer is 'spacy' or 'whitespace'"
        raise Errors.EL032(lang=tokenizer, error=problem)
    ends_at = _sentence_ends() if split else None
    if tokenizer == "whitespace":
        return lambda texts: (_separated(text, ends_at, lines) for text in texts)
    nlp = _blank(lang)

    def tokenize(texts: Sequence[str]) -> Iterator[list[Sentence]]:
        nonlocal nlp
        for text in texts:
            # The vocabulary of nlp grows with every new word. spaCy's memory zones
            # would empty it after each batch, but make the tokenizer twice as slow.
            if len(nlp.vocab) > MAX_WORDS:
                nlp = _blank(lang)
            sentences: list[Sentence] = []
            for start, piece in short_words(text):
                for sentence in _tokenized(nlp.tokenizer(piece), piece, ends_at, lines):
                    sentences.append(sentence.moved(start))
            yield sentences

    return tokenize


def tokenizer_of_pipeline(pipeline: str, files_hash: str | None = None) -> Tokenize:
    """Return a function from texts to the sentences that a spaCy pipeline sets in each.
    Raises ValueError [EL209] if its files have another hash."""
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


def _tokenized(
    doc: "Doc", text: str, ends_at: "_SentenceEnds | None", lines: bool
) -> Iterator[Sentence]:
    """Yield the sentences of a tokenized text."""
    texts, starts, ends = _tokens_of(doc, text)
    breaks: list[int] = []
    if lines and _LINE_END.search(text.rstrip()):
        breaks = [i for i, t in enumerate(texts, 1) if _LINE_END.search(t)]
    yield from _sentences(texts, starts, ends, _firsts(texts, ends_at, breaks))


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


def _separated(
    text: str, ends_at: "_SentenceEnds | None", lines: bool
) -> list[Sentence]:
    """Split a text at white space. Return the words in sentences."""
    places = [match.span() for match in _WORD.finditer(text)]
    if not places:
        return []
    words = [text[start:end][:MAX_TOKEN] for start, end in places]
    starts, ends = map(list, zip(*places))
    breaks: list[int] = []
    if lines and _LINE_END.search(text.rstrip()):
        gaps = enumerate(pairwise(places), 1)
        breaks = [i for i, ((_, a), (b, _)) in gaps if _LINE_END.search(text, a, b)]
    cuts = [0, *_firsts(words, ends_at, breaks), len(words)]
    return [
        Sentence(words[a:b], starts[a:b], ends[a:b]) for a, b in pairwise(cuts) if a < b
    ]


class _SentenceEnds(NamedTuple):
    """The rule of spaCy's sentencizer: a sentence ends after one of `marks` and the
    punctuation that follows it."""

    marks: frozenset[str]
    is_punct: Callable[[str], bool]


def _sentence_ends() -> _SentenceEnds:
    from spacy.lang.lex_attrs import is_punct
    from spacy.pipeline import Sentencizer

    return _SentenceEnds(frozenset(Sentencizer.default_punct_chars), is_punct)


def _firsts(
    texts: list[str], ends_at: _SentenceEnds | None, breaks: list[int]
) -> list[int]:
    """Return the numbers of the tokens that begin a sentence, without the first token.

    spaCy's own sentencizer takes as long as half of the tokenizer.

    Args:
        texts: All tokens.
        ends_at: The rule by which sentences end; None for no rule.
        breaks: Tokens that begin a sentence in any case.
    """
    if ends_at is None:
        return breaks
    marks, is_punct = ends_at
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
