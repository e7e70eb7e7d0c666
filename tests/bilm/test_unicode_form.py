"""A model that has read one Unicode form gives text of the other the same vectors."""

import json
import unicodedata

import numpy as np
import pytest
import spacy

from spacy_elmo import BiLM, models
from spacy_elmo.bilm.words import form_of
from spacy_elmo.explore import sentence_view
from spacy_elmo.explore.labelled import read_contexts
from spacy_elmo.models.model_card import read_card
from spacy_elmo.pretrain import perplexity
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text import Request, prepare
from spacy_elmo.text.corpus import build_corpus
from spacy_elmo.text.shards import open_corpus

from ..models import tiny_config

SENTENCE = ["항구에", "커다란", "배가", "들어왔다", "café", "."]
DECOMPOSED = [unicodedata.normalize("NFD", word) for word in SENTENCE]


def tiny(form):
    bilm = BiLM.random(tiny_config())
    bilm.form = form
    return bilm


@pytest.mark.parametrize("name", models.MODELS.values())
def test_models_that_ship_have_read_composed_text(name):
    bilm = BiLM.load(models.find(name))
    assert bilm.form == read_card(models.find(name))["unicode_form"] == "NFC"
    first, second = bilm.encode([SENTENCE, DECOMPOSED])
    assert DECOMPOSED != SENTENCE and np.array_equal(first, second)


def test_other_models_read_words_as_they_are():
    first, second = tiny(None).encode([SENTENCE, DECOMPOSED])
    assert not np.allclose(first, second)
    first, second = tiny("NFD").encode([SENTENCE, DECOMPOSED])
    assert np.array_equal(first, second)
    assert np.allclose(first, tiny(None).encode([DECOMPOSED])[0], atol=1e-6)


def test_letters_that_are_not_composed():
    """Compatibility and half-width letters are characters of their own."""
    bilm = tiny("NFC")
    for letters in ("ㅎㅏㄴ", "ￊￂ￤"):
        (found,), (composed,) = bilm.encode([[letters]]), bilm.encode([["한"]])
        assert not np.allclose(found, composed)
        assert bilm.as_read([letters]) == [letters]


def test_the_form_is_saved_and_is_no_part_of_the_fingerprint(tmp_path):
    bilm = tiny("NFC")
    assert bilm.fingerprint() == tiny(None).fingerprint()
    bilm.save(tmp_path / "a", card={})
    assert BiLM.load(tmp_path / "a").form == "NFC"
    assert json.loads((tmp_path / "a/card.json").read_text())["unicode_form"] == "NFC"
    tiny(None).save(tmp_path / "b")
    assert BiLM.load(tmp_path / "b").form is None
    assert "unicode_form" not in (tmp_path / "b/config.json").read_text()


def test_a_pipeline_keeps_the_form_and_docs_keep_their_text(tmp_path):
    tiny("NFC").save(tmp_path / "weights")
    nlp = spacy.blank("xx")
    nlp.add_pipe("elmo", config={"weights": str(tmp_path / "weights")})
    expected = nlp(" ".join(SENTENCE)).tensor
    nlp.to_disk(tmp_path / "pipeline")
    (tmp_path / "weights").rename(tmp_path / "gone")
    for again in (nlp, spacy.load(tmp_path / "pipeline")):
        doc = again(" ".join(DECOMPOSED))
        assert [token.text for token in doc] == DECOMPOSED
        assert np.array_equal(doc.tensor, expected)
        assert again.get_pipe("elmo").bilm.form == "NFC"


def test_a_layer_cache_has_one_entry_for_both_forms(tmp_path):
    tiny("NFC").save(tmp_path / "weights")
    nlp = spacy.blank("xx")
    elmo = nlp.add_pipe("elmo", config={"weights": str(tmp_path / "weights")})
    elmo.use_layer_cache("memory")
    expected = nlp(" ".join(SENTENCE)).tensor
    assert np.array_equal(nlp(" ".join(DECOMPOSED)).tensor, expected)


@pytest.mark.slow
def test_perplexity_is_that_of_the_composed_text(tmp_path):
    model = LanguageModel.load(models.find("ko_elmo_sm"))
    lines = ["배가 고파서 밥을 먹었다 .", "배가 항구에 들어왔다 ."] * 20
    expected = perplexity(
        model, build_corpus([s.split() for s in lines], vocab=model.bilm.vocab)
    )
    decomposed = [unicodedata.normalize("NFD", line) for line in lines]
    sentences = [line.split() for line in decomposed]
    corpus = build_corpus(sentences, vocab=model.bilm.vocab)
    assert corpus.coverage < 0.3
    assert perplexity(model, corpus).to_dict() == pytest.approx(expected.to_dict())
    (tmp_path / "a.txt").write_text("\n".join(decomposed), encoding="utf-8")
    prepare([tmp_path / "a.txt"], tmp_path / "out", Request("xx"), progress=False)
    corpus = open_corpus(tmp_path / "out").with_vocab(model.bilm.vocab)
    assert perplexity(model, corpus).to_dict() == pytest.approx(expected.to_dict())


def test_contexts_and_pages_are_in_the_form(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(" ".join(DECOMPOSED), encoding="utf-8")
    for word in ("배가", unicodedata.normalize("NFD", "배가")):
        (context,), _ = read_contexts([path], word, lang="xx", form="NFC")
        assert list(context.sentence) == SENTENCE
    with pytest.raises(ValueError, match="EL084"):
        read_contexts([path], "배가", lang="xx")
    page = sentence_view(tiny("NFC"), DECOMPOSED)
    assert page.data["sentences"] == [SENTENCE]


@pytest.mark.parametrize(
    ("words", "form"),
    [
        (["a", "b"], "NFC"),
        (SENTENCE, "NFC"),
        (DECOMPOSED, "NFD"),
        ([*SENTENCE, *DECOMPOSED], None),
    ],
)
def test_form_of_words(words, form):
    assert form_of(words) == form
