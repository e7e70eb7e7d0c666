"""Nearest contexts of a word: occurrences with similar vectors (paper, table 4).

Shapes: N contexts, Q queries, L layers, D width, V words, H width without context.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..bilm import BiLM
from ..errors import Errors
from ..machine import default_settings

BATCH_SIZE = 1024  # sentences of a batch, which bounds memory
AROUND = 12  # tokens that are shown on each side


@dataclass(frozen=True)
class Context:
    """An occurrence of a word: its sentence and the number of its token there."""

    sentence: Sequence[str]
    position: int

    def __str__(self) -> str:
        """Return the sentence around the word, with the word in brackets."""
        i = self.position
        before = self.sentence[max(0, i - AROUND) : i]
        after = self.sentence[i + 1 : i + 1 + AROUND]
        return " ".join([*before, f"[{self.sentence[i]}]", *after])


@dataclass(frozen=True)
class Neighbour:
    """A context, a near context, and the cosine of their vectors."""

    context: Context
    nearest: Context
    cosine: float


@default_settings()
def nearest_contexts(
    bilm: BiLM,
    queries: Sequence[Context],
    contexts: Sequence[Context],
    n: int,
    layer: int = -1,
) -> list[Neighbour]:
    """Return the nearest contexts of each query, in other sentences.

    Args:
        bilm: The model whose vectors are compared.
        queries: The contexts to find neighbours of.
        contexts: The contexts to search, which may include the queries.
        n: Number of neighbours of a query.
        layer: The layer to compare; 0 is the token layer, -1 the last.

    Returns:
        The neighbours of the first query, nearest first, then those of the next query.

    Raises:
        ValueError: [EL083] There is no such layer.
    """
    both, Q = [*queries, *contexts], len(queries)
    units, sentences = unit_vectors(bilm, both, layer), sentence_numbers(both)
    near_Qn, cosine_Qn = nearest(units[:Q], sentences[:Q], units[Q:], sentences[Q:], n)
    return [
        Neighbour(query, contexts[i], float(cosine))
        for query, near_n, cosine_n in zip(queries, near_Qn, cosine_Qn)
        for i, cosine in zip(near_n, cosine_n)
        if i >= 0
    ]


def may_match(pattern: str) -> Callable[[str], bool]:
    """Return a filter of texts. It is False for a text in which no token can match a
    regular expression, so that the text need not be tokenized. Raises ValueError
    [EL082] if the pattern is not a regular expression."""
    search = _compile(pattern).search
    if re.search(r"[\^$]|\\[AbBZ]|\(\?[=!<]", pattern):  # depends on a token's ends
        return lambda text: True
    return lambda text: search(text) is not None


def contexts_of(pattern: str, sentences: Iterable[Sequence[str]]) -> Iterator[Context]:
    """Yield the context of every token that a regular expression matches as a whole.
    Case is ignored. Raises ValueError [EL082] if the pattern is not a regular
    expression."""
    matches = _compile(pattern).fullmatch
    for sentence in sentences:
        for i, token in enumerate(sentence):
            if matches(token):
                yield Context(sentence, i)


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise Errors.EL082(pattern=pattern, error=error) from error


@default_settings()
def nearest_words(
    pattern: str, vocab: Sequence[str], vectors_VH: np.ndarray, n: int
) -> list[str]:
    """Return the nearest neighbours of a word in a vocabulary, nearest first. The word
    is the most frequent one that a pattern matches as a whole. If the pattern matches
    no word, the result is empty.

    Args:
        pattern: A regular expression; case is ignored.
        vocab: Words by falling frequency.
        vectors_VH: Their vectors.
        n: Number of neighbours.

    Raises:
        ValueError: [EL082] The pattern is not a regular expression.
    """
    matches = _compile(pattern).fullmatch
    asked = next((i for i, word in enumerate(vocab) if matches(word)), None)
    if asked is None:
        return []
    unit_VH, number_V = unit(vectors_VH), np.arange(len(vocab))
    (near_n,), _ = nearest(unit_VH[[asked]], number_V[[asked]], unit_VH, number_V, n)
    return [vocab[i] for i in near_n if i >= 0]


def unit_vectors(
    bilm: BiLM, contexts: Sequence[Context], layer: int = -1
) -> np.ndarray:
    """Return the vector of each context in a layer, scaled to length 1, (N, D). Raises
    ValueError [EL083] if there is no such layer."""
    n_layers = bilm.config.n_layers + 1
    if not -n_layers <= layer < n_layers:
        raise Errors.EL083(layer=layer, last=n_layers - 1)
    return unit_layers(bilm, contexts, [layer])[0]


@default_settings()
def unit_layers(
    bilm: BiLM, contexts: Sequence[Context], layers: Sequence[int]
) -> np.ndarray:
    """Return the vector of each context in some layers, scaled to length 1, (L, N,
    D)."""
    shape = len(layers), len(contexts), bilm.config.width
    found_LND = np.empty(shape, dtype=np.float32)
    for start in range(0, len(contexts), BATCH_SIZE):
        some = contexts[start : start + BATCH_SIZE]
        encoded = bilm.encode([context.sentence for context in some])
        for n, (context, layers_LTD) in enumerate(zip(some, encoded), start):
            found_LND[:, n] = layers_LTD[layers, context.position]
    return unit(found_LND)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return vectors scaled to length 1; zeros stay zeros."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(norms, 1e-12)


def sentence_numbers(contexts: Sequence[Context]) -> np.ndarray:
    """Return a number for each context, which contexts of equal sentences share."""
    numbers = {tuple(context.sentence): i for i, context in enumerate(contexts)}
    return np.array([numbers[tuple(context.sentence)] for context in contexts])


def nearest(
    query_QD: np.ndarray,
    sentence_Q: np.ndarray,
    among_ND: np.ndarray,
    sentence_N: np.ndarray,
    n: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the n nearest vectors of each query in other sentences.

    Args:
        query_QD: Vectors of length 1.
        sentence_Q: Number of the sentence of each query.
        among_ND: Vectors of length 1 to search.
        sentence_N: Number of the sentence of each of them.
        n: Number of neighbours of a query.

    Returns:
        The numbers of the nearest vectors, nearest first, (Q, n), and their cosines.
        Where there are no more, the number is -1.
    """
    shape = len(query_QD), min(n, len(among_ND))
    near_Qn, cosine_Qn = np.empty(shape, dtype=int), np.empty(shape, dtype=np.float32)
    for start in range(0, len(query_QD), BATCH_SIZE):
        some = slice(start, start + BATCH_SIZE)
        cosine_MN = query_QD[some] @ among_ND.T
        cosine_MN[sentence_Q[some, None] == sentence_N] = -2  # below any cosine
        near_Mn = np.argsort(-cosine_MN, axis=1, kind="stable")[:, :n]
        cosine_Qn[some] = np.take_along_axis(cosine_MN, near_Mn, axis=1)
        near_Qn[some] = np.where(cosine_Qn[some] < -1.5, -1, near_Mn)
    return near_Qn, cosine_Qn
