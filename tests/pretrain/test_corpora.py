"""The settings of text and vocabulary, as the corpora of a run obey them."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from spacy_elmo.pretrain.corpora import open_corpora
from spacy_elmo.pretrain.workers import ALONE
from spacy_elmo.text import preparation
from spacy_elmo.text.corpus import SPECIALS
from spacy_elmo.text.shards import open_corpus

from .runs import config, prepare_text

LIMITS = {"text.max_tokens": 18, "text.dev_max_tokens": 7}


def opened(folder, overrides=None):
    """Return the corpora of a run."""
    return open_corpora(config(folder, overrides=overrides), folder / "out", ALONE)[0]


def sentences(corpus):
    """Return the lines that a corpus holds, with a space between two tokens."""
    words = [corpus.words[i] for i in corpus.forward.read(0, len(corpus.forward))]
    text = " ".join(words).removeprefix("<S> ").removesuffix(" </S>")
    return text.split(" </S> <S> ")


@pytest.mark.parametrize("is_prepared", [False, True], ids=["files", "prepared"])
def test_max_tokens_are_those_of_each_text(folder, is_prepared):
    """Sentences have 6, 3 and 2 tokens; the last one is whole."""
    named = prepare_text(folder) if is_prepared else {}
    also = {"other": named.get("text.dev", [str(folder / "dev.txt")])}
    found = opened(folder, {"text.also": also, **named, **LIMITS})
    first = ["the cat sat on the mat", "a dog sat", "the end"]
    assert sentences(found["train"]) == [*first, *first[:2]]
    assert sentences(found["dev"]) == sentences(found["other"]) == first[:2]


def test_text_files_are_prepared_as_far_as_max_tokens(folder):
    opened(folder, LIMITS)
    for name, n in (("train", 20), ("dev", 9)):
        assert open_corpus(folder / "out" / "text" / name).n_tokens == n


def test_all_is_read_without_max_tokens(folder):
    found = opened(folder)
    assert {name: corpus.n_tokens for name, corpus in found.items()} == {
        "train": 352,
        "dev": 33,
    }


@pytest.mark.parametrize("is_prepared", [False, True], ids=["files", "prepared"])
@pytest.mark.parametrize(
    ("least", "expected"), [(1, "edcba"), (2, "edcb"), (4, "ed"), (6, "")]
)
def test_words_of_the_vocabulary_are_seen_min_count_times(
    folder, is_prepared, least, expected
):
    (folder / "train.txt").write_text("a b b c c c d d d d e e e e e\n")
    named = prepare_text(folder) if is_prepared else {}
    found = opened(folder, {"vocab.min_count": least, **named})
    assert found["train"].vocab == [*SPECIALS, *expected]
    assert sentences(found["train"]) == ["a b b c c c d d d d e e e e e"]
    if not is_prepared:  # what others who open the folder get
        prepared = open_corpus(folder / "out" / "text" / "train")
        assert prepared.vocab == [*SPECIALS, *expected]


@pytest.mark.parametrize(
    ("lang", "expected"), [("en", "we do n't"), ("de", "we don't")]
)
def test_lang_is_that_of_the_tokenizer(folder, lang, expected):
    for name in ("train", "dev"):
        (folder / f"{name}.txt").write_text("we don't\n")
    found = opened(folder, {"text.lang": lang, "text.tokenizer": "spacy"})
    assert {name: sentences(corpus) for name, corpus in found.items()} == {
        "train": [expected],
        "dev": [expected],
    }


@pytest.mark.parametrize("tokenizer", ["spacy", "whitespace"])
@pytest.mark.parametrize("split", [True, False], ids=["sentences", "lines"])
def test_lines_are_split_at_sentence_ends_if_sentences_are_wanted(
    folder, split, tokenizer
):
    for name in ("train", "dev"):
        (folder / f"{name}.txt").write_text("We sat . A dog ran !\nThe end .\n")
    found = opened(folder, {"text.sentences": split, "text.tokenizer": tokenizer})
    lines = ["We sat .", "A dog ran !"] if split else ["We sat . A dog ran !"]
    for name in ("train", "dev"):
        assert sentences(found[name]) == [*lines, "The end ."]


def test_processes_are_as_many_as_wanted(folder, monkeypatch):
    """Threads in their place start sooner."""
    asked = []

    def pool(n, *args):
        asked.append(n)
        return ThreadPoolExecutor(n)

    monkeypatch.setattr(preparation, "ProcessPoolExecutor", pool)
    found = opened(folder, {"text.processes": 3})
    assert asked == [3, 3]
    counts = Counter(sentences(found["train"]))
    assert counts == {"the cat sat on the mat": 32, "a dog sat": 32, "the end": 32}
