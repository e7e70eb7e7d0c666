"""What is said of Docs that come to `elmo` without sentence boundaries."""

import warnings

import pytest
import spacy
from spacy.cli.debug_data import debug_data
from spacy.tokens import DocBin
from spacy.training import Example
from spacy.training.initialize import init_nlp

from ..models import tiny_config
from ..pipelines import TAGGER, add_elmo, sizes

TWO = "The bank lends money. It was founded long ago."
ONE = 'He said, "Go!" ...'


def said(run) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(w.message) for w in caught if "[ELW01]" in str(w.message)
            or "[ELW64]" in str(w.message)]  # fmt: skip


def example(nlp, text=TWO) -> Example:
    doc = nlp.make_doc(text)
    return Example.from_dict(doc, {"tags": ["X"] * len(doc)})


def with_tagger(*before, **settings):
    nlp = spacy.blank("en")
    for name in before:
        nlp.add_pipe(name)
    add_elmo(nlp, **settings)
    nlp.add_pipe("tagger", config=TAGGER)
    return nlp


def test_several_sentences_are_read_as_one():
    nlp = spacy.blank("en")
    add_elmo(nlp)
    (message,) = said(lambda: [nlp(text) for text in (ONE, TWO, TWO)])
    assert "ELW01" in message and "as one sentence" in message
    assert "Put a 'sentencizer', 'senter' or 'parser' before 'elmo'" in message


@pytest.mark.parametrize("text", [ONE, "Wait...", "", "3.5 p.m. Mr. Kim", "no end"])
def test_nothing_is_said_of_one_sentence(text):
    nlp = spacy.blank("en")
    add_elmo(nlp)
    assert not said(lambda: nlp(text))


@pytest.mark.parametrize("before", ["sentencizer", "own"])
def test_nothing_is_said_where_sentences_are_set(before):
    nlp = spacy.blank("en")
    if before == "own":  # which does not say what it assigns

        @spacy.Language.component("own_sentences")
        def own_sentences(doc):
            for token in doc:
                token.is_sent_start = token.i == 0
            return doc

        before = "own_sentences"
    nlp.add_pipe(before)
    add_elmo(nlp)
    assert not said(lambda: nlp(TWO * 100))


@pytest.mark.parametrize("frozen", [True, False])
def test_sentencizer_that_does_not_annotate_in_training(frozen):
    nlp = with_tagger("sentencizer", frozen=frozen)
    batch = [example(nlp)]
    optimizer = None

    def start():
        nonlocal optimizer
        optimizer = nlp.initialize(lambda: [example(nlp, TWO * 100)])

    assert not said(start)  # Docs have not been through anything yet
    update = lambda **how: nlp.update(batch, sgd=optimizer, **how)  # noqa: E731
    (message,) = said(lambda: [update(), update()])
    assert "[ELW64]" in message and "'sentencizer' stands before" in message
    assert "annotating_components" in message and "Put a" not in message
    nlp = with_tagger("sentencizer", frozen=frozen)
    optimizer = nlp.initialize(lambda: batch)
    batch = [example(nlp)]
    assert not said(lambda: update(annotates=["sentencizer"]))


def test_sourced_without_the_sentencizer_that_stands_before_it():
    source = with_tagger("sentencizer")
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", source=source)
    (message,) = said(lambda: nlp(TWO))
    assert "[ELW01]" in message and "Put a 'sentencizer'" in message


def test_frozen_component_that_training_leaves_out():
    """It is not updated, and a listener has the Docs read."""
    nlp = with_tagger("sentencizer")
    batch = [example(nlp)]
    optimizer = nlp.initialize(lambda: batch)
    (message,) = said(lambda: nlp.update(batch, sgd=optimizer, exclude=["elmo"]))
    assert "[ELW64]" in message


def test_a_training_begins_in_silence(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    model = sizes(tiny_config())
    nlp.add_pipe("elmo", config={"model": model, "frozen": False})
    nlp.add_pipe("tagger", config=TAGGER)
    docs = [example(nlp, TWO * 100).reference for _ in range(3)]
    DocBin(docs=docs).to_disk(tmp_path / "docs.spacy")
    corpus = {"@readers": "spacy.Corpus.v1", "gold_preproc": False}
    corpus["path"] = str(tmp_path / "docs.spacy")
    config = nlp.config.copy()
    config["corpora"] = {"train": corpus, "dev": corpus}
    config["training"]["annotating_components"] = ["sentencizer"]
    config.to_disk(tmp_path / "config.cfg")
    assert not said(lambda: init_nlp(spacy.util.load_config(tmp_path / "config.cfg")))

    def debug():
        with pytest.raises(SystemExit):  # of so few Docs
            debug_data(tmp_path / "config.cfg", silent=True)

    assert not said(debug)
