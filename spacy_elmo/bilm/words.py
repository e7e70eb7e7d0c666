"""Words -> ids of their UTF-8 bytes, of their characters in the alphabet of a model, or
of words in its vocabulary.

Ids 1 to 256 are the bytes 0 to 255. Id 0 stands for "no token here". So every id is one
higher than in the published files, which count from 0.

Shapes: V words, C characters of a word.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from ..errors import Errors
from .config import BiLMConfig

BEGIN_SENTENCE = 257
END_SENTENCE = 258
BEGIN_WORD = 259
END_WORD = 260
PADDING = 261

# The sentence boundaries are words of one special character. A token with the spelling
# of a boundary is that boundary, as in the published implementations.
BOS = "<S>"
EOS = "</S>"
UNK = "<UNK>"  # stands for words outside a vocabulary

# Unicode can spell one text in two forms: "\ud55c" (NFC) and "\u1112\u1161\u11ab" (NFD)
# are a Korean syllable and its three letters. A model that was trained on one form
# alone knows words in this form.
UnicodeForm = Literal["NFC", "NFD"]
FORMS: tuple[UnicodeForm, ...] = ("NFC", "NFD")

# Entries of every alphabet that stand for no character.
MARKS = ("<oov>", "<bos>", "<eos>", "<bow>", "<eow>", "<pad>")


class WordReader:
    """Turns words into the ids that the token encoder of a model reads.

    Args:
        config: The sizes of the model.
        vocab: The words of its softmax or of its word embedding; None if they are not
            known.
        alphabet: Its characters, if it does not read bytes.
        form: The Unicode form that words are turned to; None to leave them.

    Raises:
        ValueError: [EL020] The word embedding has another number of rows.
    """

    def __init__(
        self,
        config: BiLMConfig,
        vocab: Sequence[str] | None = None,
        alphabet: Sequence[str] | None = None,
        form: UnicodeForm | None = None,
    ) -> None:
        self.config, self.form = config, form
        self.vocab = None if vocab is None else list(vocab)
        self.alphabet = None if alphabet is None else list(alphabet)
        n_rows, n_words = config.n_words, len(self.vocab or [])
        if self.vocab is not None and n_rows not in (0, n_words):
            problem = f"n_words is {n_rows}, but there are {n_words} words"
            raise Errors.EL020(problem=problem)
        embedded = self.vocab or [] if n_rows else []
        self._word_ids = {word: i for i, word in enumerate(embedded)}
        self._character_ids = {c: i for i, c in enumerate(alphabet or [], start=1)}
        self._padding = PADDING if alphabet is None else self._character_ids["<pad>"]

    def ids(self, words: Sequence[str]) -> list[np.ndarray]:
        """Return the arguments of the token encoder: character ids (V, C), word ids
        (V,), or both. A word outside the vocabulary has the id of <UNK>."""
        found, words = [], in_form(words, self.form)
        if self.config.has_characters:
            found.append(self.trim(self.character_ids(words)))
        if self.config.n_words:
            unknown = self._word_ids.get(UNK, 0)
            ids = [self._word_ids.get(word, unknown) for word in words]
            found.append(np.array(ids, dtype=np.int64))
        return found

    def character_ids(self, words: Sequence[str]) -> np.ndarray:
        """Return the character ids of words, (V, C). Raises ValueError [EL020] if the
        model reads an alphabet, and there is none."""
        words = in_form(words, self.form)
        if self.alphabet is not None:
            ids, longest = self._character_ids, self.config.max_characters
            return encode_words_in(ids, words, longest)
        if self.config.characters == "alphabet":
            problem = "characters = 'alphabet' needs weights that come with an alphabet"
            raise Errors.EL020(problem=problem)
        return encode_words(words, self.config.max_characters)

    def trim(self, ids_VC: np.ndarray) -> np.ndarray:
        """Return character ids without the padding that changes no vector."""
        widest = max(width for width, _ in self.config.filters)
        return np.ascontiguousarray(trim(ids_VC, widest, self._padding))


def in_form(words: Sequence[str], form: UnicodeForm | None) -> Sequence[str]:
    """Return words in a Unicode form, or unchanged if it is None."""
    if form is None or all(map(str.isascii, words)):
        return words
    return [unicodedata.normalize(form, word) for word in words]


def form_of(words: Iterable[str]) -> UnicodeForm | None:
    """Return a Unicode form that all words are in, NFC first; None if there is none."""
    left = list(FORMS)
    for word in words:
        if not word.isascii():
            left = [form for form in left if unicodedata.is_normalized(form, word)]
    return left[0] if left else None


def word_to_bytes(word: str) -> bytes:
    """Return the UTF-8 bytes of a word, without lone surrogates, which UTF-8 does not
    have."""
    return word.encode("utf-8", "ignore")


def encode_words(words: Sequence[str], max_characters: int = 50) -> np.ndarray:
    """Return the ids of words' UTF-8 bytes, (V, max_characters) in int64. A row has the
    begin of the word, its first max_characters - 2 bytes, its end, and padding."""
    n = max_characters - 2
    # A boundary gets one byte here; `_lay_out` replaces it by the id of the boundary.
    texts = [b"\0" if w in (BOS, EOS) else word_to_bytes(w)[:n] for w in words]
    inner_N = np.frombuffer(b"".join(texts), dtype=np.uint8).astype(np.int64) + 1
    marks = BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING
    return _lay_out(words, inner_N, list(map(len, texts)), marks, max_characters)


def encode_words_in(
    alphabet: Mapping[str, int], words: Sequence[str], max_characters: int = 50
) -> np.ndarray:
    """Return the ids of words' code points in an alphabet, (V, max_characters) in
    int64, laid out as by `encode_words`. alphabet: the id of each entry, from 1."""
    oov, *marks = (alphabet[mark] for mark in MARKS)
    n = max_characters - 2
    texts = [word[:1] if word in (BOS, EOS) else word[:n] for word in words]
    inner = [alphabet.get(c, oov) for text in texts for c in text]
    inner_N = np.array(inner, dtype=np.int64)
    return _lay_out(words, inner_N, list(map(len, texts)), marks, max_characters)


def _lay_out(
    words: Sequence[str],
    inner_N: np.ndarray,
    lengths: Sequence[int],
    marks: Sequence[int],
    max_characters: int,
) -> np.ndarray:
    bos, eos, begin, end, padding = marks
    lengths_V = np.array(lengths, dtype=np.int64)
    ids_VC = np.full((len(words), max_characters), padding, dtype=np.int64)
    ids_VC[:, 0] = begin
    ids_VC[:, 1:][np.arange(max_characters - 1) < lengths_V[:, None]] = inner_N
    ids_VC[np.arange(len(words)), lengths_V + 1] = end
    for row, word in enumerate(words):
        if word in (BOS, EOS):
            ids_VC[row, 1] = bos if word == BOS else eos
    return ids_VC


def trim(ids_VC: np.ndarray, widest_filter: int, padding: int = PADDING) -> np.ndarray:
    """Return character ids without the columns of padding that can't change the output
    of a char-CNN. Windows of padding alone are all equal, so the longest word and one
    such window are enough. This is exact.

    Args:
        ids_VC: Character ids.
        widest_filter: Width of the widest filter.
        padding: The id of padding.
    """
    columns = np.flatnonzero((ids_VC != padding).any(axis=0))
    longest = int(columns[-1]) + 1 if len(columns) else 1
    return ids_VC[:, : longest + widest_filter]
