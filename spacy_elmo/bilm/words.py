"""Tokens -> character ids, over their UTF-8 bytes or in a model's own alphabet.

Ids 1-256 are the bytes 0-255; 0 stands for "no token here", so everything the
published files number from 0 is one higher here.
"""

from collections.abc import Mapping, Sequence

import numpy as np

BEGIN_SENTENCE = 257
END_SENTENCE = 258
BEGIN_WORD = 259
END_WORD = 260
PADDING = 261

# The sentence boundaries are words of one special character. A token that is spelled
# like one is that boundary, as in the published implementations.
BOS = "<S>"
EOS = "</S>"
UNK = "<UNK>"  # stands for the words that a vocabulary does not have


def word_to_bytes(word: str) -> bytes:
    """UTF-8 of a token. What UTF-8 can't encode (lone surrogates) is dropped."""
    return word.encode("utf-8", "ignore")


def encode_words(words: Sequence[str], max_characters: int = 50) -> np.ndarray:
    """Character ids of words.

    RETURNS: int64, shape (V, max_characters): begin of word, the first
    max_characters - 2 bytes, end of word, padding.
    """
    ids_VC = np.full((len(words), max_characters), PADDING, dtype=np.int64)
    ids_VC[:, 0] = BEGIN_WORD
    for ids_C, word in zip(ids_VC, words):
        if word == BOS:
            ids_C[1:3] = BEGIN_SENTENCE, END_WORD
        elif word == EOS:
            ids_C[1:3] = END_SENTENCE, END_WORD
        else:
            text = word_to_bytes(word)[: max_characters - 2]
            end = len(text) + 1
            ids_C[1:end] = np.frombuffer(text, dtype=np.uint8)
            ids_C[1:end] += 1
            ids_C[end] = END_WORD
    return ids_VC


# Marks of an alphabet, entries among its characters.
MARKS = ("<oov>", "<bos>", "<eos>", "<bow>", "<eow>", "<pad>")


def encode_words_in(
    alphabet: Mapping[str, int], words: Sequence[str], max_characters: int = 50
) -> np.ndarray:
    """Ids of words' code points in an alphabet, whose entries are numbered from 1.

    RETURNS: int64, shape (V, max_characters), laid out as by `encode_words`.
    """
    oov, bos, eos, begin, end, padding = (alphabet[mark] for mark in MARKS)
    ids_VC = np.full((len(words), max_characters), padding, dtype=np.int64)
    for ids_C, word in zip(ids_VC, words):
        inner = [alphabet.get(c, oov) for c in word[: max_characters - 2]]
        if word in (BOS, EOS):
            inner = [bos if word == BOS else eos]
        ids_C[: len(inner) + 2] = [begin, *inner, end]
    return ids_VC


def trim(ids_VC: np.ndarray, widest_filter: int, padding: int = PADDING) -> np.ndarray:
    """Cut padding columns that can't change a char-CNN's output.

    Windows of padding only are all alike, so one of them is enough: the longest word
    and one full window. Exact, not an approximation.
    """
    columns = np.flatnonzero((ids_VC != padding).any(axis=0))
    longest = int(columns[-1]) + 1 if len(columns) else 1
    return ids_VC[:, : longest + widest_filter]
