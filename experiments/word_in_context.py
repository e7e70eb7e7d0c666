"""Whether a word has one sense in two sentences, told by the cosine of its vectors.

    python -m experiments.word_in_context MODEL corpus/wsd-noad.tar.xz OUTPUT

Pairs are drawn from the training part of the corpora of word senses (SemCor): for every
word as many of one sense as of two. The figure is how often a pair of one sense has a
higher cosine than a pair of the same word that has two: 50 % is chance. A row is a
layer, or their average; a column is what is done with its vectors before the cosine is
taken. What that needs, means and covariances, is made of all words of the corpus
without their senses.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from tqdm import tqdm
from wasabi import msg

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.models import find

from .word_senses import AT_ONCE, TRAIN, Word, read_corpus

PAIRS = 8  # of each word and kind at most, so that frequent words don't decide
OCCURRENCES = 200  # of each word at most
# Tokens of the two sentences.
LENGTHS = {
    "all": (0, 10**9),
    "1-15": (1, 15),
    "16-30": (16, 30),
    "from 31": (31, 10**9),
}
REMOVED = 3  # principal components
Pairs = list[tuple[np.ndarray, np.ndarray]]
Transform = Callable[[np.ndarray], np.ndarray]


class Occurrences(NamedTuple):
    """Labelled words: vectors of each layer and of their average (N, L+2, D), lengths
    of the sentences (N,), senses; and of all words of the text the mean (L+2, D) and
    the covariance (L+2, D, D) of each."""

    vectors: np.ndarray
    lengths: np.ndarray
    senses: list[tuple[Word, str]]
    mean: np.ndarray
    covariance: np.ndarray


def read(bilm: BiLM, archive: Path) -> Occurrences:
    """Encode the corpus once."""
    sentences = read_corpus(archive, TRAIN)
    kept, lengths, senses = [], [], []
    n, total, products = 0, 0.0, 0.0
    progress = tqdm(desc="SemCor", unit=" sentences", leave=False)
    while some := list(islice(sentences, AT_ONCE)):
        layers = bilm.encode([tokens for tokens, _ in some])
        for (tokens, labelled), layers_LTD in zip(some, layers):
            average_1TD = layers_LTD.mean(0, keepdims=True)
            vectors = np.concatenate([layers_LTD, average_1TD])
            n += len(tokens)
            total = total + vectors.sum(1, dtype=np.float64)
            products = products + vectors.transpose(0, 2, 1) @ vectors
            for position, word, sense in labelled:
                kept.append(vectors[:, position].astype(np.float16))
                lengths.append(len(tokens))
                senses.append((word, sense))
        progress.update(len(some))
    progress.close()
    mean = total / n
    covariance = products / n - np.einsum("ld,le->lde", mean, mean)
    return Occurrences(np.stack(kept), np.array(lengths), senses, mean, covariance)


def draw_pairs(
    senses: Sequence[tuple[Word, str]], places: Sequence[int], seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield, for each word with several senses at some places, those of pairs of one
    sense and of pairs of two, (P, 2) each, as many of either."""
    rng = np.random.default_rng(seed)
    by_word: dict[Word, list[int]] = {}
    for place in places:
        by_word.setdefault(senses[place][0], []).append(place)
    for found in by_word.values():
        drawn: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        shuffled = rng.permutation(found)[:OCCURRENCES]
        for a, b in rng.permutation(np.stack(np.triu_indices(len(shuffled), 1)).T):
            i, j = shuffled[a], shuffled[b]
            kind = drawn[senses[i] == senses[j]]
            if len(kind) < PAIRS:
                kind.append((i, j))
        n = min(len(drawn[True]), len(drawn[False]))
        if n:
            yield np.array(drawn[True][:n]), np.array(drawn[False][:n])


def transforms(mean_D: np.ndarray, covariance_DD: np.ndarray) -> dict[str, Transform]:
    """Return what is done with vectors (N, D), by name."""
    variance_D, axes_DD = np.linalg.eigh(covariance_DD)
    first_DR = axes_DD[:, -REMOVED:].astype(np.float32)
    whiten_DD = axes_DD / np.sqrt(np.maximum(variance_D, 1e-3 * variance_D.mean()))
    mean_D, whiten_DD = mean_D.astype(np.float32), whiten_DD.astype(np.float32)
    return {
        "raw": lambda x: x,
        "centred": lambda x: x - mean_D,
        f"{REMOVED} components removed": lambda x: (
            (x - mean_D) - (x - mean_D) @ first_DR @ first_DR.T
        ),
        "whitened": lambda x: (x - mean_D) @ whiten_DD,
    }


def evaluate(found: Occurrences, *, seed: int = 0) -> dict[str, Any]:
    """Return the number of pairs of each length of sentences, and the share of
    comparisons that are right: length -> row -> name of the transform -> share."""
    pairs: dict[str, Pairs] = {}
    for length, (least, most) in LENGTHS.items():
        inside = (found.lengths >= least) & (found.lengths <= most)
        places = np.flatnonzero(inside).tolist()
        pairs[length] = list(draw_pairs(found.senses, places, seed))
    right: dict[str, Any] = {length: {} for length in LENGTHS}
    rows = [f"layer {layer}" for layer in range(len(found.mean) - 1)]
    for number, row in enumerate([*rows, "average"]):
        vectors_ND = found.vectors[:, number].astype(np.float32)
        each = transforms(found.mean[number], found.covariance[number])
        for name, transform in each.items():
            x_ND = transform(vectors_ND)
            unit_ND = x_ND / (np.linalg.norm(x_ND, axis=1, keepdims=True) + 1e-12)
            for length in LENGTHS:
                right[length].setdefault(row, {})[name] = _right(pairs[length], unit_ND)
    counts = {k: 2 * sum(len(one) for one, _ in some) for k, some in pairs.items()}
    return {"pairs": counts, "right": right}


def _right(pairs: Pairs, unit_ND: np.ndarray) -> float:
    right, total = 0.0, 0
    for kinds in pairs:
        one, two = ((unit_ND[p[:, 0]] * unit_ND[p[:, 1]]).sum(1) for p in kinds)
        right += (one[:, None] > two).sum() + 0.5 * (one[:, None] == two).sum()
        total += len(one) * len(two)
    return right / max(1, total)


def main(
    model: Path = typer.Argument(..., help="Model folder, or a shipped name"),
    archive: Path = typer.Argument(..., help="wsd-noad.tar.xz"),
    output: Path = typer.Argument(..., help="Folder for what is found, as JSON"),
) -> None:
    """Write word_in_context.json, and show it as tables."""
    results = evaluate(read(BiLM.load(find(model)), archive))
    output.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=2) + "\n"
    (output / "word_in_context.json").write_text(text, encoding="utf-8")
    for length, rows in results["right"].items():
        msg.divider(f"sentences of {length} tokens: {results['pairs'][length]:,} pairs")
        header = ["", *next(iter(rows.values()))]
        cells = [[k, *(f"{x:.2%}" for x in row.values())] for k, row in rows.items()]
        msg.table(cells, header=header, divider=True)


if __name__ == "__main__":
    typer.run(main)
