"""Benchmarks of whole pipelines: all their figures, and what they are of."""

import time

import pytest
import torch

from benchmarks import layer_cache, pipe, scaling
from benchmarks.speed import made_up_sentences, made_up_words
from spacy_elmo.bilm.bilm import BiLM

from ..models import EVEN_SIZES

SENTENCES = made_up_sentences(made_up_words(200), 1500)


@pytest.fixture
def folder(tmp_path):
    BiLM.random(EVEN_SIZES).save(tmp_path / "model")
    return str(tmp_path / "model")


def test_the_pipeline_is_the_one_that_is_said():
    bilm = BiLM.random(EVEN_SIZES)
    nlp = pipe.make_pipeline(bilm, listeners=3)
    assert nlp.pipe_names == ["sentencizer", "elmo", "tagger0", "ner1", "tagger2"]
    elmo = nlp.get_pipe("elmo")
    assert len(elmo.listeners) == 3 and elmo.bilm is bilm
    doc = nlp("w1 w2 .")
    assert all(token.tag_ in pipe.TAGS for token in doc)
    assert set(nlp.get_pipe("ner1").labels) == set(pipe.ENTITIES)


def test_texts_have_the_words_that_are_asked_for():
    words = sum(map(len, SENTENCES))
    for n in (0, 7, 1000):
        texts = pipe.texts_of(SENTENCES, n)
        assert sum(len(text.split()) for text in texts) == words
        assert {len(text.split()) for text in texts[:-1]} <= ({n} if n else {20})


def test_time_in_modules_is_all_of_theirs_and_no_more():
    class Slow(torch.nn.Module):
        def forward(self):
            time.sleep(0.02)

    slow, other = Slow(), Slow()
    with pipe.time_in([slow]) as spent:
        slow()
        other()
        slow()
    slow()
    assert len(spent) == 2 and all(t >= 0.02 for t in spent)


def test_pipe_has_all_its_figures(folder):
    before = torch.get_num_threads()
    rows = pipe.benchmark([folder], SENTENCES, doc_words=[0, 50], rounds=1)
    assert torch.get_num_threads() == before
    assert [row["Docs"] for row in rows] == [len(SENTENCES), 30]
    for row in rows:
        assert row["words/s"] > 0 and 0 < row["outside the biLM"] < 1


@pytest.mark.slow
def test_scaling_has_all_its_figures(monkeypatch, folder):
    monkeypatch.setattr(scaling, "VOCABULARIES", (50, 100))
    monkeypatch.setattr(scaling, "LISTENERS", (0, 2))
    found = scaling.benchmark(folder, n_tokens=2000, docs=10, rounds=1)
    lengths, batches, words, listeners, docs = found.values()
    assert [row["tokens"] for row in lengths] == list(scaling.LENGTHS)
    assert [row["sentences"] for row in batches] == list(scaling.BATCHES)
    assert max(row["distinct words"] for row in words) <= 100
    assert [row["listeners"] for row in listeners] == [0, 2]
    assert [row["Docs"] for row in docs] == [0, 1, 10]
    assert all(row["MB"] > 1 for row in docs)


def test_epochs_have_all_their_figures(folder):
    (row,) = layer_cache.benchmark([folder], SENTENCES[:20], rounds=1)
    names = {"no cache", "memory", "file", "static vectors"}
    assert names == set(row) - {"model"} and all(row[name] > 0 for name in names)


@pytest.mark.parametrize("length", scaling.LENGTHS)
def test_sentences_of_one_length_are_cut_whole(length):
    words = [str(i) for i in range(1000)]
    cut = scaling.cut(words, length)
    assert {len(sentence) for sentence in cut} == {length}
    assert [w for s in cut for w in s] == words[: length * len(cut)]
    assert 1000 - length * len(cut) < length
