"""Korean: spaCy's two tokenizers for it, and texts in it."""

import numpy as np
import pytest
import spacy

from spacy_elmo import models as shipped
from spacy_elmo.pipeline import make_config
from spacy_elmo.pipeline.training_config import NO_MECAB

from ..pipelines import add_elmo

TEXT = "눈이 하얗게 내렸다. 그녀는 눈을 크게 떴다."


def pipelines():
    yield spacy.blank("xx")
    yield spacy.blank("ko", config=NO_MECAB)


def test_any_tokenizer_with_a_model_of_ones_own():
    for nlp in pipelines():
        add_elmo(nlp)
        doc = nlp(TEXT)
        assert doc.tensor.shape == (len(doc), 12)
        expected = nlp.get_pipe("elmo").bilm.encode([[t.text for t in doc]])[0]
        assert np.allclose(doc._.elmo.layers, expected, atol=1e-6)


def test_with_mecab():
    try:
        nlp = spacy.blank("ko")
    except ImportError as error:
        pytest.skip(f"needs natto-py and MeCab: {str(error).splitlines()[0]}")
    add_elmo(nlp)
    doc = nlp(TEXT)
    assert len(doc) > 8 and np.isfinite(doc.tensor).all()


@pytest.mark.skipif("ko" not in shipped.MODELS, reason="no Korean model ships")
def test_the_korean_model_is_taken_for_korean():
    nlp = spacy.blank("ko", config=NO_MECAB)
    nlp.add_pipe("elmo")
    doc = nlp(TEXT)
    expected = shipped.load("ko").encode([[t.text for t in doc]])[0]
    assert np.allclose(doc._.elmo.layers, expected, atol=1e-5)
    other = spacy.blank("xx")
    other.add_pipe("elmo").load_weights(shipped.MODELS["ko"])
    again = other(TEXT)
    assert [t.text for t in again] == [t.text for t in doc]
    assert np.allclose(again.tensor, doc.tensor, atol=1e-5)


def test_configuration_needs_no_mecab(tmp_path):
    config = spacy.util.load_config_from_str(make_config(["tagger"], lang="ko"))
    nlp = spacy.util.load_model_from_config(config)
    assert [t.text for t in nlp.make_doc("눈이 내렸다.")] == ["눈이", "내렸다", "."]
