import gc
import pickle

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from spacy_elmo import similarity

from ..pipelines import add_elmo

A, B = "a bank lends money", "the bank was steep"
HASHES = {
    "@architectures": "spacy.HashEmbedCNN.v2",
    "pretrained_vectors": None,
    "width": 8,
    "depth": 1,
    "embed_size": 50,
    "window_size": 1,
    "maxout_pieces": 2,
    "subword_features": True,
}


@pytest.fixture
def nlp():
    nlp = spacy.blank("en")
    add_elmo(nlp)
    return nlp


def test_cosine_of_vectors_in_context(nlp):
    a, b = nlp("a bank lends")[1], nlp("the river bank")[2]
    u, v = a.doc.tensor[1], b.doc.tensor[2]
    expected = u @ v / np.linalg.norm(u) / np.linalg.norm(v)
    assert similarity(a, b) == pytest.approx(float(expected), abs=1e-6)
    assert similarity(a, b) == similarity(b, a) < 0.9999
    assert similarity(a, a) == pytest.approx(1, abs=1e-6)
    assert similarity(a, b, layer=0) == pytest.approx(1, abs=1e-6)
    assert similarity(a, b, layer=2) < 0.9999
    # spaCy's own can't tell them apart
    assert a.similarity(b) == 1.0


def test_white_space_is_like_nothing(nlp):
    doc = nlp("a  b")
    assert similarity(doc[0], doc[1]) == 0.0


def test_doc_that_was_not_read(nlp):
    doc = Doc(nlp.vocab, words=["a", "b"])
    with pytest.raises(ValueError, match="EL055"):
        similarity(doc[0], doc[1])
    with pytest.raises(ValueError, match="EL055"):
        similarity(doc[0], doc[1], layer=1)


def test_empty_docs_are_like_nothing(nlp):
    assert similarity(Doc(nlp.vocab), nlp("a bank")) == 0.0
    assert similarity(nlp("a bank"), nlp("")) == 0.0


def test_vectors_of_two_models(nlp):
    doc = Doc(nlp.vocab, words=["a", "b"])
    doc.tensor = np.ones((2, 5), dtype="float32")
    with pytest.raises(ValueError, match=r"EL142.*5"):
        similarity(nlp("a bank"), doc)


def test_tokens_that_were_split_since(nlp):
    """spaCy leaves one row too many in doc.tensor."""
    doc = nlp("a bank lends")
    with doc.retokenize() as retokenizer:
        retokenizer.split(doc[1], ["ba", "nk"], heads=[(doc[1], 1), doc[2]])
    with pytest.raises(ValueError, match=r"EL140.* vectors for 4 tokens.*split"):
        similarity(doc[0], doc[1])
    expected = nlp.get_pipe("elmo").bilm.encode([["a", "ba", "nk", "lends"]])[0][1]
    cosine = expected[0] @ expected[1] / np.linalg.norm(expected[:2], axis=1).prod()
    found = similarity(doc[0], doc[1], layer=1)
    assert found == pytest.approx(float(cosine), abs=1e-6)
    doc = nlp.get_pipe("elmo")(doc)
    assert similarity(doc[0], doc[1]) < 1


def test_no_such_layer(nlp):
    doc = nlp("a bank")
    for layer in (3, -4, "top"):
        with pytest.raises(ValueError, match=r"EL083.*last layer is 2"):
            similarity(doc[0], doc[1], layer=layer)


def test_hooks_if_asked_for():
    nlp = spacy.blank("en")
    add_elmo(nlp, similarity_hooks=True)
    doc, other = nlp("a bank lends"), nlp("the river bank")
    assert doc[1].similarity(other[2]) == similarity(doc[1], other[2]) < 0.9999
    assert doc[1].similarity(doc[1:2]) == pytest.approx(1, abs=1e-6)
    u, v = doc.tensor.mean(0), other.tensor[1:].mean(0)
    expected = pytest.approx(float(u @ v / np.linalg.norm(u) / np.linalg.norm(v)))
    assert doc.similarity(other[1:]) == expected
    assert doc[:].similarity(other[1:]) == expected
    again = Doc(nlp.vocab).from_bytes(doc.to_bytes())  # hooks don't travel, as in spaCy
    assert again[1].similarity(other[2]) == 1.0
    assert nlp("").similarity(doc) == 0.0
    with pytest.raises(TypeError, match="EL094"):
        doc[1].similarity(nlp.vocab["bank"])


@pytest.mark.parametrize("order", [("tok2vec", "elmo"), ("elmo", "tok2vec")])
def test_elmo_is_compared_where_tok2vec_owns_the_tensor(order):
    """With a mix of its own, which is not the average."""
    settings = {"mix_weights": [0.0, 0.0, 5.0], "gamma": 2.0}
    alone = spacy.blank("en")
    add_elmo(alone, **settings)
    nlp = spacy.blank("en")
    for name in order:
        if name == "elmo":
            add_elmo(nlp, set_tensor=False, similarity_hooks=True, **settings)
        else:
            nlp.add_pipe("tok2vec", config={"model": HASHES})
    nlp.initialize()
    doc, other, expected = nlp(A), nlp(B), [alone(A), alone(B)]
    assert doc.tensor.shape == (4, 8)
    for part in (slice(1, 2), slice(0, 4)):
        found = similarity(doc[part], other[part])
        pair = similarity(expected[0][part], expected[1][part])
        assert found == pytest.approx(pair, abs=1e-6)
        assert doc[part].similarity(other[part]) == found
    copied = pickle.loads(pickle.dumps(nlp))
    assert similarity(copied(A)[1], copied(B)[1]) == similarity(doc[1], other[1])


def test_elmo_is_compared_where_a_later_tok2vec_overwrites_the_tensor():
    alone, nlp = spacy.blank("en"), spacy.blank("en")
    add_elmo(alone)
    add_elmo(nlp)
    with pytest.warns(UserWarning, match="ELW21"):
        nlp.add_pipe("tok2vec", config={"model": HASHES})
    nlp.initialize()
    found = similarity(nlp(A)[1], nlp(B)[1])
    expected = similarity(alone(A)[1], alone(B)[1])
    assert found == pytest.approx(expected, abs=1e-6)
    copied = pickle.loads(pickle.dumps(nlp))
    assert similarity(copied(A)[1], copied(B)[1]) == found


def test_tok2vec_owns_the_tensor_and_the_pipeline_is_gone():
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec", config={"model": HASHES})
    add_elmo(nlp, set_tensor=False)
    nlp.initialize()
    doc, other = nlp(A), nlp(B)
    del nlp
    gc.collect()
    with pytest.raises(ValueError, match="EL055"):
        similarity(doc[1], other[1])


def test_cosine_is_at_most_one(nlp):
    """Rounded sums can make it 1.0000001."""
    rng = np.random.default_rng(0)
    for width in range(1, 200):
        doc = Doc(nlp.vocab, words=["a", "b"])
        row = rng.normal(size=width).astype("float32")
        doc.tensor = np.stack([row, -row])
        assert similarity(doc[0], doc[0]) <= 1.0
        assert similarity(doc[0], doc[1]) >= -1.0
