"""Word senses by the nearest neighbour, layer by layer (paper, section 5.3).

An occurrence in MASC is given the sense of the same word's occurrence in SemCor that is
nearest by cosine. Where several are equally near, as those of one spelling are in the
token layer, which knows no context, it has the sense that most of them have. Beside it:
the sense that SemCor has most often; the average of all layers, which `doc.tensor` has
by default; and the LSTM layers together, each made a unit vector, whose cosine is the
mean of theirs. All of them also by a vote of the nearest NEIGHBOURS, as many as are
best for every tenth document of SemCor when the others are what is known.
"""

import json
import tarfile
from collections.abc import Callable, Container, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

import numpy as np
import typer
from tqdm import tqdm
from wasabi import msg

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.models import find

TRAIN, TEST = "semcor", "masc"
AT_ONCE = 512  # sentences
MOST_OCCURRENCES = 500  # of a word, that pairs are drawn from
NEIGHBOURS = np.array([1, 2, 4, 8, 16, 32, 64])  # that vote
EQUALLY = 1e-5  # cosines of float32 sums that differ by less say nothing

Word = tuple[str, str]  # lemma and part of speech, what a dictionary has an entry for
Labelled = tuple[list[str], list[tuple[int, Word, str]]]  # tokens; positions and senses
# Unit vectors of each layer and of their average, (N, L+2, D) in 16 bits, and senses
# (N,) of each word's occurrences.
Occurrences = dict[Word, tuple[np.ndarray, np.ndarray]]


def read_corpus(
    archive: Path, part: str, keep: Callable[[int], bool] = lambda number: True
) -> Iterator[Labelled]:
    """Sentences of a part of the corpora labelled with senses of NOAD (Yuan et al.
    2016). keep: whether a document is read, by its number."""
    number = 0
    with tarfile.open(archive) as files:
        for member in files:
            if f"/{part}/" in member.name and member.name.endswith(".xml"):
                file = files.extractfile(member)
                assert file is not None
                if keep(number):
                    yield from _read_document(file)
                number += 1


def _read_document(file: IO[bytes]) -> Iterator[Labelled]:
    tokens: list[str] = []
    senses: list[tuple[int, Word, str]] = []
    for word in ElementTree.parse(file).iter("word"):
        if word.get("break_level") == "SENTENCE_BREAK" and tokens:
            yield tokens, senses
            tokens, senses = [], []
        sense, lemma = word.get("sense"), word.get("lemma", "")
        if sense is not None:
            senses.append((len(tokens), (lemma, word.get("pos", "")), sense))
        tokens.append(word.get("text", ""))
    if tokens:
        yield tokens, senses


def vectors(
    bilm: BiLM, corpus: Iterator[Labelled], title: str
) -> Iterator[tuple[Word, str, np.ndarray]]:
    """Of every labelled token its word, its sense and its layers (L+1, D)."""
    labelled = (found for found in corpus if found[1])
    progress = tqdm(desc=title, unit=" sentences", leave=False)
    while some := list(islice(labelled, AT_ONCE)):
        for (_, senses), layers in zip(some, bilm.encode([s for s, _ in some])):
            for position, word, sense in senses:
                yield word, sense, layers[:, position]
        progress.update(len(some))
    progress.close()


def by_word(
    found: Iterator[tuple[Word, str, np.ndarray]], keep: Container[Word] | None = None
) -> Occurrences:
    """Return the occurrences of words. keep: words to keep, all if None."""
    collected: dict[Word, tuple[list[np.ndarray], list[str]]] = {}
    for word, sense, layers_LD in found:
        if keep is None or word in keep:
            rows_LD = np.vstack([layers_LD, layers_LD.mean(0)])
            length_L1 = np.linalg.norm(rows_LD, axis=1, keepdims=True)
            rows, senses = collected.setdefault(word, ([], []))
            rows.append((rows_LD / (length_L1 + 1e-12)).astype(np.float16))
            senses.append(sense)
    return {w: (np.stack(v), np.array(s)) for w, (v, s) in collected.items()}


def with_lstm_layers(cosines: np.ndarray) -> np.ndarray:
    """Add the LSTM layers together, (L+3, ...), to the cosines of layers and average,
    (L+2, ...)."""
    return np.concatenate([cosines, cosines[1:-1].mean(0, keepdims=True)])


def scores_of(right_W: np.ndarray, n: float) -> dict[str, Any]:
    """Return the shares of what is right, of the ways that `with_lstm_layers` has."""
    *layers, average, lstm_layers = (float(count) / n for count in right_W)
    return {"layers": layers, "average": average, "lstm_layers": lstm_layers}


def joined(one: Occurrences, other: Occurrences) -> Occurrences:
    """Return the occurrences of both."""
    both = {**one, **other}
    for word in one.keys() & other.keys():
        (vectors, senses), (more_vectors, more_senses) = one[word], other[word]
        both[word] = (
            np.concatenate([vectors, more_vectors]),
            np.concatenate([senses, more_senses]),
        )
    return both


def right_votes(known: Occurrences, asked: Occurrences, n_ways: int) -> np.ndarray:
    """Return how many of the occurrences that are asked for get their sense by the vote
    of each of NEIGHBOURS, in each of the ways of `with_lstm_layers`, (K, W). Words that
    are known with one sense alone are left out. Of two senses with as many votes the
    one of nearer occurrences is taken."""
    right_KW = np.zeros((len(NEIGHBOURS), n_ways), dtype=int)
    for word, (queries_QLD, expected_Q) in asked.items():
        seen_NLD, senses_N = known.get(word, (queries_QLD[:0], expected_Q[:0]))
        if len(set(senses_N)) < 2:
            continue
        names, sense_N = np.unique(senses_N, return_inverse=True)
        senses_NS = np.eye(len(names), dtype=np.float32)[sense_N]
        query_LQD = queries_QLD.astype(np.float32).swapaxes(0, 1)
        seen_LDN = seen_NLD.astype(np.float32).transpose(1, 2, 0)
        places_K = len(senses_N) - np.minimum(NEIGHBOURS, len(senses_N))
        ways = []
        for cosine_QN in with_lstm_layers(query_LQD @ seen_LDN):
            furthest_QK = np.partition(cosine_QN, np.unique(places_K), 1)[:, places_K]
            weight_QN = 1 + 1e-3 * cosine_QN
            votes = [
                (weight_QN * (cosine_QN > least_Q1 - EQUALLY)) @ senses_NS
                for least_Q1 in furthest_QK.T[:, :, None]
            ]
            given_KQ = names[np.stack(votes).argmax(2)]
            ways.append((given_KQ == expected_Q).sum(1))
        right_KW += np.stack(ways, 1)
    return right_KW


def evaluate(bilm: BiLM, archive: Path) -> dict[str, Any]:
    """Return accuracies on the occurrences of words that were seen with several senses:
    of the most frequent sense, of each layer, of their average and of the LSTM layers
    together by the nearest neighbour; and by a vote, with the number that vote."""

    def read(keep: Callable[[int], bool], title: str) -> Occurrences:
        return by_word(vectors(bilm, read_corpus(archive, TRAIN, keep), title))

    known = read(lambda number: number % 10 != 0, "SemCor")
    tenth = read(lambda number: number % 10 == 0, "a tenth of SemCor")
    n_ways = bilm.config.n_layers + 3
    best_W = right_votes(known, tenth, n_ways).argmax(0)
    known = joined(known, tenth)
    known = {w: (v, s) for w, (v, s) in known.items() if len(set(s)) > 1}
    asked = by_word(vectors(bilm, read_corpus(archive, TEST), "MASC"), known)
    n, first = 0, 0
    for word, (_, expected_Q) in asked.items():
        names, counts = np.unique(known[word][1], return_counts=True)
        n += len(expected_Q)
        first += int((expected_Q == names[counts.argmax()]).sum())
    right_KW = right_votes(known, asked, n_ways)
    vote = scores_of(right_KW[best_W, np.arange(n_ways)], n)
    vote["neighbours"] = scores_of(NEIGHBOURS[best_W], 1)
    nearest = scores_of(right_KW[0], n)
    return {"occurrences": n, "first_sense": first / n, **nearest, "vote": vote}


def evaluate_pairs(
    bilm: BiLM, archive: Path, *, n: int = 20, seed: int = 0
) -> dict[str, Any]:
    """Whether two occurrences of a word have one sense, told by their cosine: pairs
    drawn from MASC, n of one sense and n of two for each word at most.

    Returns:
        How often a pair of one sense has a higher cosine than a pair of the same word
        that has two (0.5 is chance), as `evaluate` has accuracies.
    """
    occurrences = by_word(vectors(bilm, read_corpus(archive, TEST), "MASC"))
    rng = np.random.default_rng(seed)
    higher_W, total = np.zeros(bilm.config.n_layers + 3), 0
    for layers_NLD, senses_N in occurrences.values():
        i, j = np.triu_indices(min(len(senses_N), MOST_OCCURRENCES), k=1)
        same = senses_N[i] == senses_N[j]
        if same.all() or not same.any():
            continue
        cosines = []
        for kind in (same, ~same):
            some = rng.permutation(np.flatnonzero(kind))[:n]
            left, right = (layers_NLD[x[some]].astype(np.float32) for x in (i, j))
            cosines.append(with_lstm_layers(np.einsum("pld,pld->lp", left, right)))
        one_WP, two_WP = cosines
        higher_W += (one_WP[:, :, None] > two_WP[:, None]).sum((1, 2))
        higher_W += 0.5 * (one_WP[:, :, None] == two_WP[:, None]).sum((1, 2))
        total += one_WP.shape[1] * two_WP.shape[1]
    return {"without": 0.5, "comparisons": total, **scores_of(higher_W, total)}


def flat(found: dict[str, Any]) -> list[float]:
    """Return what `scores_of` was given."""
    return [*found["layers"], found["average"], found["lstm_layers"]]


def rows_of(found: dict[str, Any]) -> list[tuple[str, str]]:
    names = [f"layer {i}" for i in range(len(found["layers"]))]
    names += ["average of all layers", "LSTM layers together"]
    return [(name, f"{score:.2%}") for name, score in zip(names, flat(found))]


def main(
    model: Path = typer.Argument(..., help="Model folder, or a shipped name"),
    archive: Path = typer.Argument(..., help="wsd-noad.tar.xz"),
    output: Path = typer.Argument(..., help="Folder for what is found, as JSON"),
) -> None:
    bilm = BiLM.load(find(model))
    found, pairs = evaluate(bilm, archive), evaluate_pairs(bilm, archive)
    output.mkdir(parents=True, exist_ok=True)
    for name, result in (("word_senses", found), ("same_or_other_sense", pairs)):
        text = json.dumps(result, indent=2) + "\n"
        (output / f"{name}.json").write_text(text, encoding="utf-8")
    rows = [("most frequent sense", f"{found['first_sense']:.2%}"), *rows_of(found)]
    msg.table(rows, header=(f"{found['occurrences']:,} words", "right"), divider=True)
    numbers = [f"{n:.0f}" for n in flat(found["vote"]["neighbours"])]
    voted = [(*row, n) for row, n in zip(rows_of(found["vote"]), numbers)]
    msg.table(voted, header=("a vote", "right", "of so many"), divider=True)
    msg.table(rows_of(pairs), header=("pairs", "one sense is nearer"), divider=True)


if __name__ == "__main__":
    typer.run(main)
