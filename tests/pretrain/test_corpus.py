from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.pretrain.corpus import (
    BOS_ID,
    EOS_ID,
    SPECIALS,
    UNK_ID,
    Streams,
    build_corpus,
    check_vocab,
    reverse_sentences,
)

word = st.sampled_from([*"abcdefg", "가", "나"])
texts = st.lists(st.lists(word, min_size=1, max_size=8), min_size=1, max_size=20)


@given(text=texts, size=st.integers(3, 9), least=st.integers(1, 3))
def test_words_are_numbered_by_frequency(text, size, least):
    corpus = build_corpus(text, vocab_size=size, min_count=least)
    flat = [word for sentence in text for word in sentence]
    counts = [flat.count(word) for word in corpus.words[3:]]
    assert tuple(corpus.words[:3]) == SPECIALS
    assert counts == sorted(counts, reverse=True) and set(flat) == set(corpus.words[3:])
    assert corpus.n_vocab <= size
    kept = [c for c in counts if c >= least][: size - 3]
    assert corpus.n_vocab == 3 + len(kept)
    back = [corpus.words[i] for i in corpus.ids]
    assert back == [w for s in text for w in ("<S>", *s, "</S>")]
    assert corpus.n_tokens == len(flat)
    assert corpus.coverage == pytest.approx(sum(kept) / len(flat))


@given(text=texts)
def test_a_given_vocabulary_is_kept(text):
    corpus = build_corpus(text, vocab=[*SPECIALS, "a", "z"])
    assert corpus.words[:5] == [*SPECIALS, "a", "z"] and corpus.n_vocab == 5


def test_max_tokens_stops_early():
    corpus = build_corpus(([["a", "b"]] * 100), max_tokens=7)
    assert corpus.n_tokens == 8


@given(text=texts)
def test_reversed_sentences(text):
    corpus = build_corpus(text)
    back = [corpus.words[i] for i in reverse_sentences(corpus.ids)]
    assert back == [w for s in text for w in ("</S>", *reversed(s), "<S>")]


def all_targets(streams, direction):
    """(word read, word predicted) of every step, stream by stream."""
    B = streams.batch_size
    windows = [window[direction] for window in streams]
    read = np.concatenate([w.input_N.reshape(-1, B) for w in windows])
    target = np.concatenate([w.target_N.reshape(-1, B) for w in windows])
    return [(r, t) for r, t in zip(read.T.ravel(), target.T.ravel()) if t >= 0]


@settings(max_examples=60)
@given(
    text=texts, batch_size=st.integers(1, 5), steps=st.integers(1, 7), data=st.data()
)
def test_every_target_once_in_both_directions(text, batch_size, steps, data):
    corpus = build_corpus(text, vocab_size=data.draw(st.integers(3, 9)))
    n = len(corpus.ids) - 1
    if n < batch_size:
        with pytest.raises(ValueError, match="EL035"):
            Streams(corpus, batch_size, steps)
        return
    streams = Streams(corpus, batch_size, steps)
    assert len(list(streams)) == len(streams)
    for direction, ids in enumerate([corpus.ids, reverse_sentences(corpus.ids)]):
        first = (BOS_ID, EOS_ID)[direction]  # of each sentence, never predicted
        expected = [
            (read, target if target < corpus.n_vocab else UNK_ID)
            for read, target in pairwise(ids)
            if target != first
        ]
        assert all_targets(streams, direction) == expected


def test_no_text():
    with pytest.raises(ValueError, match="EL033"):
        build_corpus([])


def test_foreign_vocabulary():
    check_vocab([*SPECIALS, "a"], "here")
    with pytest.raises(ValueError, match="EL034"):
        check_vocab(["a", "b", "c"], "here")
    with pytest.raises(ValueError, match="EL039"):
        check_vocab([*SPECIALS, "a", "a"], "here")


def test_marks_in_the_text_are_words_that_are_not_known():
    corpus = build_corpus([["a", "<S>", "</S>"], ["b"]])
    assert [corpus.words[i] for i in corpus.ids[:5]] == [
        "<S>",
        "a",
        "<UNK>",
        "<UNK>",
        "</S>",
    ]
    assert len(reverse_sentences(corpus.ids)) == len(corpus.ids)
