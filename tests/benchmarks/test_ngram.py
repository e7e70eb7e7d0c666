"""The n-gram model is a distribution, and the one that Kneser and Ney meant."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.ngram import NGramModel, ngram_perplexity
from spacy_elmo.text.corpus import build_corpus

V = 7  # 0 begins a sentence, 1 ends it
word = st.integers(2, V - 1)
texts = st.lists(st.lists(word, max_size=7), min_size=1, max_size=25)


def flat(text):
    return np.array([w for sentence in text for w in (0, *sentence, 1)])


@settings(max_examples=40, deadline=None)
@given(text=texts, history=st.lists(word, max_size=6), order=st.integers(1, 5))
def test_probabilities_of_all_words_add_up_to_one(text, history, order):
    model = NGramModel(flat(text), V, 0, order)
    total = 0.0
    for last in range(1, V):
        total += np.exp(model.log_probability(np.array([0, *history, last]))[-1])
    assert total == pytest.approx(1, abs=1e-9)


def plain(text, order):
    """Chen and Goodman's equations with dictionaries, one n-gram at a time."""
    tables = []
    order = min(order, max(map(len, text)) + 2)  # the longest that there are
    for n in range(1, order + 1):
        raw, before = Counter(), defaultdict(set)
        for sentence in text:
            words = (0, *sentence, 1)
            for end in range(n, len(words) + 1):
                raw[words[end - n : end]] += 1
                if end > n:
                    before[words[end - n : end]].add(words[end - n - 1])
        if n < order:
            table = {g: c if g[0] == 0 else len(before[g]) for g, c in raw.items()}
        else:
            table = dict(raw)
        if n == 1:
            table[(0,)] = 0
        tables.append(table)

    def discount(table, count):
        n1, n2, n3, n4 = (
            max(1, sum(c == k for c in table.values())) for k in (1, 2, 3, 4)
        )
        y = n1 / (n1 + 2 * n2)
        amounts = [0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
        return min(count, max(0, amounts[min(count, 3)]))

    def probability(history, last):
        p = 1 / (V - 1)
        for n in range(1, order + 1):
            if len(history) < n - 1:
                break
            context = tuple(history[len(history) - n + 1 :])
            table = tables[n - 1]
            after = {g: c for g, c in table.items() if g[:-1] == context and c}
            total = sum(after.values())
            if not total:
                continue
            left = sum(discount(table, c) for c in after.values())
            count = after.get((*context, last), 0)
            p = (count - discount(table, count)) / total + left / total * p
        return p

    return probability


@settings(max_examples=30, deadline=None)
@given(text=texts, order=st.integers(1, 4), held_out=texts)
def test_equals_the_plain_one(text, order, held_out):
    model, probability = NGramModel(flat(text), V, 0, order), plain(text, order)
    expected = []
    for sentence in held_out:
        words = (0, *sentence, 1)
        expected += [
            probability(words[:end], words[end]) for end in range(1, len(words))
        ]
    found = np.exp(model.log_probability(flat(held_out)))
    assert found == pytest.approx(expected)


def test_perplexity_of_what_was_learnt_by_heart():
    corpus = build_corpus([["a", "b", "c"], ["a", "d"]] * 20)
    found = ngram_perplexity(corpus, corpus)
    assert 1 < found["mean"] < 2 and 1 < found["forward"] < 2 and found["backward"] > 1
    other = build_corpus([["d", "c", "a", "a"]] * 5, vocab=corpus.vocab)
    assert ngram_perplexity(corpus, other)["mean"] > found["mean"]
