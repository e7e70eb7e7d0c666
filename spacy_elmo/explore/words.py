"""The view of all contexts of a word: points, clusters and nearest contexts, in each
layer.

Shapes: N contexts, L layers, D width, P principal components, K clusters.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np

from ..bilm import BiLM
from ..errors import Errors
from ..machine import default_settings
from .neighbours import Context, nearest, sentence_numbers, unit_layers
from .page import View, visible

WINDOW = 200  # tokens that are read on each side of the word
AROUND = 16  # tokens that are shown on each side
N_NEAREST = 10  # nearest contexts of a context
N_COMPONENTS = 16  # principal components that points are clustered by
FEWEST_CLUSTERS, MOST_CLUSTERS = 3, 7  # numbers of clusters that are compared
ROUNDS = 50  # most iterations of k-means
TYPICAL = 3  # words that describe a cluster


@default_settings()
def word_view(
    bilm: BiLM,
    contexts: Sequence[Context],
    labels: Sequence[str] | None = None,
    *,
    word: str,
    about: str = "",
) -> View:
    """Return a view of the contexts of a word as points of a plane, in each layer.

    Args:
        bilm: The model whose vectors are shown.
        contexts: Occurrences of the word.
        labels: A label of each context, such as a sense or a tag; None for no labels.
        word: The word, for the title.
        about: A line for the page, the name of the model for instance.

    Raises:
        ValueError: [EL084] There are no contexts.
    """
    if not contexts:
        raise Errors.EL084(word=word, where="contexts")
    near = [_window(context, WINDOW) for context in contexts]
    sentence_N, n = sentence_numbers(contexts), min(N_NEAREST, len(contexts) - 1)
    layers, before = [], None
    for unit_ND in unit_layers(bilm, near, range(bilm.config.n_layers + 1)):
        centred_ND = unit_ND - unit_ND.mean(axis=0)
        points_NP, shares_P = principal_components(centred_ND, N_COMPONENTS)
        if before is not None:  # the sign of a component is arbitrary
            points_NP[:, :2] *= np.where((before * points_NP[:, :2]).sum(0) < 0, -1, 1)
        before = points_NP[:, :2]
        cluster_N = clusters(points_NP)
        near_Nn, cosine_Nn = nearest(unit_ND, sentence_N, unit_ND, sentence_N, n)
        layers.append(
            {
                "points": before.astype(float).round(4).ravel().tolist(),
                "variance": shares_P[:2].astype(float).round(4).tolist(),
                "cluster": cluster_N.tolist(),
                "typical": typical_words(near, cluster_N),
                "near": near_Nn.tolist(),
                "cosine": (cosine_Nn * 1000).round().astype(int).tolist(),
            }
        )
    shown = [_window(context, AROUND, "…") for context in contexts]
    data = {
        "word": visible(word),
        "contexts": [[*map(visible, c.sentence)] for c in shown],
        "positions": [c.position for c in shown],
        "labels": None if labels is None else [*map(visible, labels)],
        "layers": layers,
    }
    return View("word", f"{len(contexts):,} contexts of “{word}”", about, data)


def principal_components(x_ND: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first n principal components of centred vectors, (N, P), at least two,
    and the share of each in the variance, (P,)."""
    u_NP, s_P, _ = np.linalg.svd(x_ND, full_matrices=False)
    s_P[s_P < 1e-6 * math.sqrt(x_ND.size)] = 0  # rounding errors of unit vectors
    points_NP, variance_P = (u_NP * s_P)[:, :n], s_P**2
    missing = max(0, 2 - points_NP.shape[1])
    shares_P = variance_P / max(float(variance_P.sum()), 1e-12)
    return np.pad(points_NP, ((0, 0), (0, missing))), np.pad(shares_P, (0, missing))[:n]


def clusters(x_NP: np.ndarray) -> np.ndarray:
    """Cluster points by k-means. Return the number of each point's cluster, (N,).
    Cluster 0 is the largest. The number of clusters is the one with the largest mean
    silhouette, computed from distances to means."""
    best, found_N = 0.0, np.zeros(len(x_NP), dtype=int)
    n_distinct = len(np.unique(x_NP.round(4), axis=0))
    if n_distinct == 1:
        return found_N
    fewest, most = min(FEWEST_CLUSTERS, n_distinct), min(MOST_CLUSTERS, n_distinct)
    for k in range(fewest, most + 1):
        distance_NK = k_means(x_NP, k)
        own_N, next_N = np.sort(distance_NK, axis=1)[:, :2].T
        silhouette = float(np.mean((next_N - own_N) / np.maximum(next_N, 1e-12)))
        if silhouette > best + 1e-3:
            best, found_N = silhouette, distance_NK.argmin(axis=1)
    order_K = np.argsort(-np.bincount(found_N), kind="stable")
    return np.argsort(order_K)[found_N]


def k_means(x_NP: np.ndarray, k: int) -> np.ndarray:
    """Return the distances of points to the means of k clusters, (N, K), by k-means++
    (Arthur and Vassilvitskii 2007) with a fixed seed."""
    rng = np.random.default_rng(0)
    means = x_NP[rng.integers(len(x_NP), size=1)]
    while len(means) < k:
        weight_N = _distances(x_NP, means).min(axis=1) ** 2
        chosen = rng.choice(len(x_NP), p=weight_N / weight_N.sum())
        means = np.vstack([means, x_NP[chosen]])
    for _ in range(ROUNDS):
        own_N = _distances(x_NP, means).argmin(axis=1)
        moved = [x_NP[own_N == i] for i in range(k)]
        new = np.stack([x.mean(0) if len(x) else means[i] for i, x in enumerate(moved)])
        if np.allclose(new, means):
            break
        means = new
    return _distances(x_NP, means)


def _distances(x_NP: np.ndarray, means_KP: np.ndarray) -> np.ndarray:
    return np.linalg.norm(x_NP[:, None] - means_KP, axis=2)


def typical_words(
    contexts: Sequence[Context], cluster_N: np.ndarray, around: int = 6
) -> list[list[str]]:
    """Return, for each cluster, the words that are typical neighbours of the word
    there.

    A word scores by its term in the divergence between its distribution in the cluster
    and in all contexts. Words that are near everywhere score less.

    Args:
        contexts: The contexts.
        cluster_N: The cluster of each context.
        around: Tokens on each side that count as neighbours.
    """
    counts = [Counter[str]() for _ in range(int(cluster_N.max()) + 1)]
    for context, cluster in zip(contexts, cluster_N):
        i, tokens = context.position, context.sentence
        some = chain(tokens[max(0, i - around) : i], tokens[i + 1 : i + 1 + around])
        near = {t.lower() for t in some if t.isalpha() and len(t) > 1}
        counts[cluster].update(near - {tokens[i].lower()})
    total = sum(counts, Counter[str]())
    found = []
    for count, n in zip(counts, np.bincount(cluster_N)):
        everywhere = {word: total[word] / len(contexts) for word in count}
        score = {
            word: c * math.log(c / n / everywhere[word]) * (1 - everywhere[word]) ** 20
            for word, c in count.items()
        }
        best = sorted(score, key=lambda word: (-score[word], word))[:TYPICAL]
        found.append([visible(word, 20) for word in best if score[word] > 0])
    return found


def _window(context: Context, around: int, cut: Sequence[str] = ()) -> Context:
    """Return a context with `around` tokens on each side of the word. `cut` stands for
    tokens that were left out."""
    i, tokens = context.position, context.sentence
    start, end = max(0, i - around), i + around + 1
    first, last = cut if start else (), cut if end < len(tokens) else ()
    return Context([*first, *tokens[start:end], *last], i - start + len(first))
