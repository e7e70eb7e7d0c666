"""Benchmarks of whole pipelines: all their figures, and what they are of."""

import time

import pytest
import torch
from spacy.tokens import DocBin

from benchmarks import pipe, precision, scaling
from benchmarks.inference import sentences_of
from benchmarks.sizes import SIZES, zipf_text
from spacy_elmo.bilm.bilm import BiLM

from ..pipelines import examples, trained

SENTENCES = sentences_of(zipf_text(200, 1500), 1500)


def test_the_pipeline_is_the_one_that_is_said():
    bilm = BiLM.random(SIZES["tiny"])
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
    assert len(spent) == 2 and all(0.02 <= t < 0.2 for t in spent)


def test_pipe_has_all_its_figures():
    before = torch.get_num_threads()
    found = pipe.benchmark(["tiny"], SENTENCES, doc_words=[0, 50], rounds=1)
    assert torch.get_num_threads() == before
    assert found["machine"]["threads"] == 1
    assert [row["docs"] for row in found["pipes"]] == [len(SENTENCES), 28]
    for row in found["pipes"]:
        assert row["words_per_second"] > 0 and 0 < row["share_outside"] < 1


def test_scaling_has_all_its_figures(monkeypatch):
    monkeypatch.setattr(scaling, "VOCABULARIES", (50, 100))
    monkeypatch.setattr(scaling, "LISTENERS", (0, 2))
    found = scaling.benchmark("tiny", n_tokens=2000, docs=10, rounds=1)
    assert set(found["sentence_length"]) == set(scaling.LENGTHS)
    assert set(found["batch"]) == set(scaling.BATCHES)
    assert max(found["vocabulary"]) <= 100 and set(found["listeners"]) == {0, 2}
    assert [line["docs"] for line in found["docs"]] == [0, 1, 10]
    assert all(line["memory_bytes"] > 1 << 20 for line in found["docs"])


@pytest.mark.parametrize("length", scaling.LENGTHS)
def test_sentences_of_one_length_are_cut_whole(length):
    words = [str(i) for i in range(1000)]
    cut = scaling._cut(words, length)
    assert {len(sentence) for sentence in cut} == {length}
    assert [w for s in cut for w in s] == words[: length * len(cut)]
    assert 1000 - length * len(cut) < length


def test_precision_has_errors_and_scores_of_each(tmp_path):
    nlp = trained()
    nlp.to_disk(tmp_path / "pipeline")
    corpus = DocBin(docs=[example.reference for example in examples(nlp)])
    corpus.to_disk(tmp_path / "test.spacy")
    found = precision.benchmark(tmp_path / "pipeline", tmp_path / "test.spacy")
    exact = found["precisions"].pop("float32")
    assert exact["mean_error"] == exact["max_error"] == 0
    assert exact["scores"] == {
        name: score
        for name, score in nlp.evaluate(examples(nlp)).items()
        if name in precision.SCORES and score
    }
    for result in found["precisions"].values():
        assert 0 < result["mean_error"] < result["max_error"] < 0.2
        assert set(result["scores"]) <= set(precision.SCORES)
