"""Vectors of words in a pipeline: what is read, what is saved, what is refused."""

import pickle

import pytest
import spacy
from spacy.language import Language

from spacy_elmo.pipeline.architectures import build_words

from ..pipelines import add_elmo, examples
from ..words import tiny_encoder
from .test_encode import HASHES, WIDTH, WINDOW

TEXTS = ["We saw Kim", "", "abc abc ABC", "a" * 3000, "한국어 日本 😀", " "]


@pytest.fixture
def weights(tmp_path):
    tiny_encoder().save(tmp_path)
    return tmp_path


def pipeline(weights, *, embed=HASHES, names=("tagger",)) -> Language:
    nlp = spacy.blank("en")
    add_elmo(nlp)
    words = {"@architectures": "spacy-elmo.Words.v1", "weights": str(weights)}
    for name in names:
        tok2vec = {
            "@architectures": "spacy-elmo.Encode.v1",
            "at": "input",
            "width": WIDTH,
            "embed": words if embed is None else {**words, "embed": embed},
            "encode": WINDOW,
            "elmo": {"@architectures": "spacy-elmo.ElmoListener.v1"},
        }
        model = {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}
        nlp.add_pipe("tagger", name=name, config={"model": model})
    return nlp


def trained(nlp, updates=3):
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    return [nlp.update(batch, sgd=optimizer)["tagger"] for _ in range(updates)]


def layers_of(nlp, name="tagger"):
    model = nlp.get_pipe(name).model
    return [node for node in model.walk() if node.name == "words"]


@pytest.mark.parametrize("embed", [None, HASHES])
def test_a_component_learns_with_them(weights, embed):
    nlp = pipeline(weights, embed=embed)
    losses = trained(nlp, 20)
    assert losses[-1] < losses[0]
    assert [len(doc) for doc in nlp.pipe(TEXTS)] == [3, 0, 3, 1, 3, 1]


def test_a_row_is_the_components_own_vector_and_the_words(weights):
    layer = build_words(weights=str(weights))
    nlp = spacy.blank("en")
    docs = [nlp.make_doc(text) for text in TEXTS]
    layer.initialize(docs)
    found = layer.predict(docs)
    for doc, rows in zip(docs, found, strict=True):
        expected = tiny_encoder().vectors([token.text for token in doc])
        assert rows.tobytes() == expected.tobytes() and rows.shape == (len(doc), 4)


def test_vectors_do_not_depend_on_the_batch(weights):
    nlp = pipeline(weights)
    trained(nlp)
    (layer,) = layers_of(nlp)
    docs = [nlp.make_doc(text) for text in TEXTS]
    together = layer.predict(docs)
    for doc, rows in zip(reversed(docs), reversed(together), strict=True):
        (alone,) = layer.predict([doc])
        assert alone.tobytes() == rows.tobytes()


def test_a_saved_pipeline_keeps_them(weights, tmp_path_factory):
    nlp = pipeline(weights)
    trained(nlp)
    folder = tmp_path_factory.mktemp("saved")
    nlp.to_disk(folder)
    (weights / "words.safetensors").unlink()
    expected = [t.tag_ for doc in nlp.pipe(TEXTS) for t in doc]
    (before,) = layers_of(nlp)
    for loaded in (spacy.load(folder), pickle.loads(pickle.dumps(nlp))):
        assert [t.tag_ for doc in loaded.pipe(TEXTS) for t in doc] == expected
        (layer,) = layers_of(loaded)
        assert layer.shims[0].encoder is before.shims[0].encoder


def test_components_share_them_in_memory(weights):
    nlp = pipeline(weights, names=("tagger", "other"))
    nlp.initialize(lambda: examples(nlp))
    (one,), (other,) = layers_of(nlp), layers_of(nlp, "other")
    assert one is not other and one.shims[0].encoder is other.shims[0].encoder


def test_a_copy_has_them_too(weights):
    layer = build_words(weights=str(weights))
    doc = spacy.blank("en").make_doc("abc")
    layer.initialize([doc])
    assert (layer.copy().predict([doc])[0] == layer.predict([doc])[0]).all()


def test_training_leaves_them_as_they_are(weights):
    nlp = pipeline(weights)
    trained(nlp)
    (layer,) = layers_of(nlp)
    assert layer.shims[0].encoder.sha256 == tiny_encoder().sha256


def test_without_weights(weights):
    layer = build_words(weights=str(weights))
    with pytest.raises(ValueError, match="EL147"):
        layer.predict([spacy.blank("en").make_doc("abc")])
    assert build_words().from_bytes(layer.to_bytes()).shims[0].to_bytes() == b""


def test_a_model_without_words(tmp_path):
    nlp = pipeline(tmp_path)
    with pytest.raises(FileNotFoundError, match="EL146"):
        nlp.initialize(lambda: examples(nlp))


def test_damaged_weights_of_a_pipeline(weights):
    layer = build_words(weights=str(weights))
    layer.initialize([spacy.blank("en").make_doc("abc")])
    data = bytearray(layer.to_bytes())
    place = data.index(tiny_encoder().to_bytes()[200:260])
    data[place + 20] ^= 1
    with pytest.raises(ValueError, match="EL002"):
        build_words().from_bytes(bytes(data))
