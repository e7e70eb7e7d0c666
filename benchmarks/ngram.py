"""A smoothed 5-gram language model, for perplexities to be compared with.

Interpolated modified Kneser-Ney (Chen and Goodman 1998), as counted text allows it:
n-grams are numbered by (number of the first n-1 words, last word), so that each order
is one sort. Sentences are predicted one by one, with the words and the ends that a biLM
predicts, over the same vocabulary.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import typer

from spacy_elmo.text.corpus import BOS_ID, EOS_ID, Corpus, RunningText
from spacy_elmo.text.shards import open_corpus

from .speed import show

ORDER = 5


@dataclass(frozen=True)
class _Order:
    """n-grams of one order. keys: sorted, each number's first words and last word.
    probability, of each: its discounted share of its context. weight, by number of
    context: what the context leaves to the shorter n-grams."""

    keys: np.ndarray
    probability: np.ndarray
    weight: np.ndarray


class NGramModel:
    """first, last: marks that a sentence begins and ends with."""

    def __init__(self, text: np.ndarray, n_words: int, first: int, order: int) -> None:
        self.n_words, self.first = n_words, first
        position = _position_in_sentence(text, first)
        order = min(order, int(position.max()) + 1)
        grams = [text.astype(np.int64)]
        keys = [np.arange(n_words, dtype=np.int64)]
        starts = [np.zeros(0, dtype=np.int64)]  # where each n-gram stands first
        counts = [np.bincount(text, minlength=n_words)]
        for n in range(2, order + 1):
            ends = np.flatnonzero(position >= n - 1)
            key = grams[-1][ends - 1] * n_words + text[ends]
            found, at, number, count = np.unique(
                key, return_index=True, return_inverse=True, return_counts=True
            )
            gram = np.full(len(text), -1, dtype=np.int64)
            gram[ends] = number
            grams.append(gram)
            keys.append(found)
            starts.append(ends[at])
            counts.append(count)
        self.orders: list[_Order] = []
        for n in range(1, order + 1):
            count = counts[n - 1].astype(np.float64)
            if n < order:
                # In how many different places, unless nothing can stand before it.
                places = np.bincount(
                    grams[n - 1][starts[n]], minlength=len(count)
                ).astype(np.float64)
                if n == 1:
                    begins = np.arange(n_words) == first
                else:
                    begins = text[starts[n - 1] - n + 1] == first
                count = np.where(begins, count, places)
            if n == 1:
                count[first] = 0  # it is never predicted
                context = np.zeros(n_words, dtype=np.int64)
            else:
                context = grams[n - 2][starts[n - 1] - 1]
            n_contexts = 1 if n == 1 else len(keys[n - 2])
            self.orders.append(_discount(keys[n - 1], count, context, n_contexts))

    def log_probability(self, text: np.ndarray) -> np.ndarray:
        """Of every word of a text that is predicted, in its order."""
        position = _position_in_sentence(text, self.first)
        lowest = self.orders[0]
        uniform = lowest.weight[0] / (self.n_words - 1)
        probability = lowest.probability[text] + uniform
        gram = text.astype(np.int64)
        for n, order in enumerate(self.orders[1:], start=2):
            context = np.where(position >= n - 1, np.roll(gram, 1), -1)
            known = context >= 0
            weight = np.where(known, order.weight[np.maximum(context, 0)], 1.0)
            key = context * self.n_words + text
            at = np.minimum(np.searchsorted(order.keys, key), len(order.keys) - 1)
            seen = known & (order.keys[at] == key)
            probability = weight * probability + np.where(
                seen, order.probability[at], 0.0
            )
            gram = np.where(seen, at, -1)
        return np.log(probability[position > 0])


def _discount(
    keys: np.ndarray, count: np.ndarray, context: np.ndarray, n_contexts: int
) -> _Order:
    n1, n2, n3, n4 = (max(1, int((count == c).sum())) for c in (1, 2, 3, 4))
    y = n1 / (n1 + 2 * n2)
    discounts = np.array(
        [0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
    ).clip(0)
    taken = discounts[np.minimum(count, 3).astype(int)].clip(max=count)
    total = np.bincount(context, count, n_contexts)
    left = np.bincount(context, taken, n_contexts)
    # A context that only ends sentences has nothing after it, and leaves all.
    weight = np.where(total > 0, left / np.maximum(total, 1), 1.0)
    return _Order(keys, (count - taken) / np.maximum(total, 1)[context], weight)


def _position_in_sentence(text: np.ndarray, first: int) -> np.ndarray:
    starts = np.flatnonzero(text == first)
    return np.arange(len(text)) - np.repeat(
        starts, np.diff(np.append(starts, len(text)))
    )


def ngram_perplexity(
    train: Corpus, held_out: Corpus, order: int = ORDER
) -> dict[str, float]:
    """Return perplexities of held-out text: forward, backward and mean. Both corpora
    must have the same vocabulary."""
    losses = {}
    for name, first in (("forward", BOS_ID), ("backward", EOS_ID)):
        texts = [_read(corpus, getattr(corpus, name)) for corpus in (train, held_out)]
        model = NGramModel(texts[0], len(train.vocab), first, order)
        losses[name] = -float(model.log_probability(texts[1]).mean())
    found = {name: float(np.exp(loss)) for name, loss in losses.items()}
    return {**found, "mean": float(np.exp(np.mean(list(losses.values()))))}


def _read(corpus: Corpus, text: RunningText) -> np.ndarray:
    return np.asarray(corpus.target_V)[text.read(0, len(text))]


def main(
    train: Path = typer.Argument(..., help="Training text, prepared"),
    held_out: Path = typer.Argument(..., help="Held-out text, prepared"),
    vocab_size: int = typer.Option(16_000, help="Words of the vocabulary"),
    max_tokens: int | None = typer.Option(None, help="Read no more of the training"),
    order: int = typer.Option(ORDER, help="Words of the longest n-gram"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    """Perplexity of an n-gram model: what a biLM of the same training text and
    vocabulary should be well below."""
    text = open_corpus(train).first(max_tokens).limit_vocab(vocab_size)
    found = ngram_perplexity(text, open_corpus(held_out).with_vocab(text.vocab), order)
    row = {"tokens": text.n_tokens, "words": len(text.vocab), **found}
    show({f"perplexity of the {order}-gram": [row]}, as_json)


if __name__ == "__main__":
    typer.run(main)
