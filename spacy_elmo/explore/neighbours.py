"""Nearest contexts of a word: occurrences with similar vectors (paper, table 4).

Shapes: N contexts, Q queries, L layers, D width, V words, H width without context.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

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
    among_ND = unit_vectors(bilm, contexts, layer)
    query_QD = unit_vectors(bilm, queries, layer)
    found = []
    near_QN = nearest(query_QD, among_ND, len(contexts))
    for query, query_D, near in zip(queries, query_QD, near_QN):
        others = (i for i in near if contexts[i].sentence != query.sentence)
        found += [
            Neighbour(query, contexts[i], float(query_D @ among_ND[i]))
            for i in islice(others, n)
        ]
    return found


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
    norms_V1 = np.linalg.norm(vectors_VH, axis=1, keepdims=True)
    unit_VH = vectors_VH / np.maximum(norms_V1, 1e-12)
    (near,) = nearest(unit_VH[asked : asked + 1], unit_VH, n + 1)
    return [vocab[i] for i in near if i != asked][:n]


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
    norms_LN1 = np.linalg.norm(found_LND, axis=-1, keepdims=True)
    found_LND /= np.maximum(norms_LN1, 1e-12)
    return found_LND


def nearest(query_QD: np.ndarray, among_ND: np.ndarray, n: int) -> list[list[int]]:
    """Return the numbers of the n nearest unit vectors of each query, nearest first,
    (Q, n)."""
    cosine_QN = query_QD @ among_ND.T
    return [np.argsort(-row, kind="stable")[:n].tolist() for row in cosine_QN]
