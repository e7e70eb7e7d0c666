"""Numbered words, running text and streams, against plain lists."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo import BiLM
from spacy_elmo.text.corpus import (
    BOS_ID,
    EOS_ID,
    SPECIALS,
    UNK_ID,
    RunningText,
    build_corpus,
    check_vocab,
)
from spacy_elmo.text.streams import Streams, read_ahead

from ..models import tiny_config

word = st.sampled_from([*"abcdefg", "가", "나"])
texts = st.lists(st.lists(word, min_size=1, max_size=8), min_size=1, max_size=20)
BILM = BiLM.random(tiny_config())


def ids_of(corpus, direction="forward"):
    text = getattr(corpus, direction)
    return text.read(0, len(text))


@given(text=texts, size=st.integers(3, 9), least=st.integers(1, 3))
def test_words_are_numbered_by_frequency(text, size, least):
    corpus = build_corpus(text, vocab_size=size, min_count=least)
    flat = [word for sentence in text for word in sentence]
    counts = [flat.count(word) for word in corpus.words[3:]]
    assert tuple(corpus.words[:3]) == SPECIALS
    assert counts == sorted(counts, reverse=True) and set(flat) == set(corpus.words[3:])
    assert counts == corpus.counts_V[3:].tolist()
    kept = [c for c in counts if c >= least][: size - 3]
    assert corpus.vocab == corpus.words[: 3 + len(kept)]
    back = [corpus.words[i] for i in ids_of(corpus)]
    assert back == [w for s in text for w in ("<S>", *s, "</S>")]
    assert corpus.n_tokens == len(flat) and corpus.n_known == sum(kept)
    assert corpus.coverage == pytest.approx(sum(kept) / len(flat))


@given(text=texts)
def test_a_given_vocabulary_is_kept(text):
    vocab = [*SPECIALS, "z", "a", "b"]
    corpus = build_corpus(text, vocab=vocab)
    assert corpus.vocab == vocab
    for i, word in enumerate(corpus.words):
        expected = vocab.index(word) if word in vocab else UNK_ID
        assert corpus.target_V[i] == expected
    flat = [word for sentence in text for word in sentence]
    assert corpus.n_known == sum(word in "ab" for word in flat)


def test_max_tokens_stops_early():
    corpus = build_corpus(([["a", "b"]] * 100), max_tokens=7)
    assert corpus.n_tokens == 8


def test_the_vocabulary_of_a_beginning_is_of_its_words():
    text = [["a", "b", "b"], ["c", "c", "b", "b"], ["d"] * 9]
    corpus = build_corpus(text).first(7)
    assert corpus.limit_vocab(4).vocab == [*SPECIALS, "b"]
    assert corpus.limit_vocab(99).vocab == [*SPECIALS, "b", "c", "a", "d"][:6]
    assert corpus.limit_vocab(99, min_count=2).vocab == [*SPECIALS, "b", "c"]
    assert corpus.limit_vocab(99).n_known == 7


@given(text=texts)
def test_backward_text_has_each_sentence_back_to_front(text):
    corpus = build_corpus(text)
    back = [corpus.words[i] for i in ids_of(corpus, "backward")]
    assert back == [w for s in text for w in ("</S>", *reversed(s), "<S>")]


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    start=st.integers(0, 30),
    n=st.integers(0, 30),
    data=st.data(),
)
def test_running_text_reads_across_its_pieces(sizes, start, n, data):
    flat = np.arange(sum(sizes), dtype=np.int32)
    pieces = np.split(flat, np.cumsum(sizes)[:-1])
    length = data.draw(st.none() | st.integers(0, len(flat)))
    text = RunningText(pieces, length)
    assert text.read(start, start + n).tolist() == (
        flat[: len(text)][start : start + n].tolist()
    )


def all_targets(batches, direction, B):
    """(word read, word predicted) of every step, stream by stream."""
    read, wanted = [], []
    for batch in batches:
        reading = getattr(batch, direction)
        read += [[batch.token_ids[0][w].tolist() for w in reading.word_N]]
        wanted += [dense_targets(batch, direction)]
    columns = np.concatenate(wanted).T
    rows = [
        [
            batch_read[t * B + b]
            for batch_read in read
            for t in range(len(batch_read) // B)
        ]
        for b in range(B)
    ]
    return [
        (spell(read), int(target))
        for row, column in zip(rows, columns)
        for read, target in zip(row, column)
        if target >= 0
    ]


def spell(ids):
    """The word that character ids stand for; 257 and 258 are the boundaries."""
    if ids[1] in (257, 258):
        return SPECIALS[ids[1] - 257]
    return bytes(i - 1 for i in ids[1 : ids.index(260)]).decode()


@settings(max_examples=60, deadline=None)
@given(
    text=texts, batch_size=st.integers(1, 5), steps=st.integers(1, 7), data=st.data()
)
def test_every_target_once_in_both_directions(text, batch_size, steps, data):
    corpus = build_corpus(text, vocab_size=data.draw(st.integers(3, 9)))
    n = len(corpus.forward) - 1
    if n < batch_size:
        with pytest.raises(ValueError, match="EL035"):
            Streams(corpus, BILM, batch_size, steps)
        return
    streams = Streams(corpus, BILM, batch_size, steps)
    batches = [streams.batch(number) for number in range(len(streams))]
    for direction in ("forward", "backward"):
        first = BOS_ID if direction == "forward" else EOS_ID  # never predicted
        expected = [
            (corpus.words[read], int(corpus.target_V[target]))
            for read, target in pairwise(ids_of(corpus, direction))
            if target != first
        ]
        assert all_targets(batches, direction, batch_size) == expected


@settings(max_examples=30, deadline=None)
@given(text=texts, steps=st.integers(1, 7), data=st.data())
def test_some_streams_are_those_of_all(text, steps, data):
    corpus = build_corpus(text)
    B = data.draw(st.integers(2, 6))
    if len(corpus.forward) - 1 < B:
        return
    cut = data.draw(st.integers(1, B - 1))
    whole = Streams(corpus, BILM, B, steps)
    parts = [
        Streams(corpus, BILM, B, steps, rows) for rows in (range(cut), range(cut, B))
    ]
    for number in data.draw(st.permutations(range(len(whole)))):  # in any order
        batch = whole.batch(number)
        some = [part.batch(number) for part in parts]
        for direction in ("forward", "backward"):
            ids = [
                b.token_ids[0][getattr(b, direction).word_N].reshape(
                    -1, b.n_streams, b.token_ids[0].shape[1]
                )[:, :, :3]  # enough to tell these words
                for b in (batch, *some)
            ]
            assert np.array_equal(ids[0], np.concatenate(ids[1:], axis=1))
        for direction in ("forward", "backward"):
            all_TB, *some_TB = (dense_targets(b, direction) for b in (batch, *some))
            assert np.array_equal(all_TB, np.concatenate(some_TB, axis=1))


def dense_targets(batch, direction):
    """What each stream predicts at each step, or -1: (T, B)."""
    reading = getattr(batch, direction)
    target_N = np.full(len(reading.word_N), -1)
    target_N[reading.position_P] = reading.target_P
    return target_N.reshape(-1, batch.n_streams)


def test_read_ahead_keeps_the_order():
    assert list(read_ahead(lambda n: [n, n], range(5))) == [[n, n] for n in range(5)]
    assert list(read_ahead(lambda n: [n], [])) == []


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
    assert [corpus.words[i] for i in ids_of(corpus)[:5]] == [
        "<S>",
        "a",
        "<UNK>",
        "<UNK>",
        "</S>",
    ]
    assert len(corpus.backward) == len(corpus.forward)


def test_text_is_read_without_torch_or_spacy():
    """Numbered, cut into shards and streams: by NumPy alone."""
    code = """
import sys
import spacy_elmo.text, spacy_elmo.text.streams
loaded = {name.split(".")[0] for name in sys.modules}
assert not loaded & {"torch", "spacy", "thinc"}, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)
