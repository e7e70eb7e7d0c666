"""What version 0.1.0 wrote goes on working: a saved pipeline, a component, a cache.

The files are in `made_by_0_1`, with the script that wrote them.
"""

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from spacy_elmo.pipeline.encoder import shim_of
from spacy_elmo.pipeline.file_cache import FileCache
from spacy_elmo.pipeline.layer_cache import context_of, key_of

from ..pipelines import add_elmo

FOLDER = Path(__file__).parent / "made_by_0_1"
READ = ["I like Paris now", "가나 saw  Kim \n again", "", "We", "x" * 60 + " hates"]
SAID = json.loads((FOLDER / "made_by.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def expected():
    with np.load(FOLDER / "expected.npz") as arrays:
        return dict(arrays)


def assert_as_before(nlp, expected):
    def close(found, name):
        assert np.allclose(found, expected[name], atol=1e-6 * 5), name

    for i, text in enumerate(READ):
        doc = nlp(text)
        close(doc.tensor, f"tensor{i}")
        close(doc._.elmo.layers, f"layers{i}")
        tagger, ner = nlp.get_pipe("tagger"), nlp.get_pipe("ner")
        assert np.array_equal(tagger.predict([doc])[0], expected[f"tags{i}"])
        entities = doc.to_array(["ENT_TYPE", "ENT_IOB"])
        assert np.array_equal(entities, expected[f"entities{i}"])
        if len(doc):
            close(tagger.model.predict([doc])[0], f"scores{i}")
            tok2vec = ner.model.get_ref("tok2vec")
            close(tok2vec.predict([doc]), f"tok2vec{i}")


def test_saved_pipeline_has_the_same_vectors_and_scores(expected, tmp_path):
    nlp = spacy.load(FOLDER / "pipeline")
    assert_as_before(nlp, expected)
    nlp.to_disk(tmp_path)
    assert_as_before(spacy.load(tmp_path), expected)


def test_component_with_kept_token_vectors_of_a_vocabulary(expected):
    nlp = spacy.load(FOLDER / "pipeline")
    data = (FOLDER / "elmo_with_vocab_cache.gz").read_bytes()
    nlp.get_pipe("elmo").from_bytes(gzip.decompress(data))
    assert_as_before(nlp, expected)


@pytest.mark.parametrize(("setting", "value"), [("gamma", 1.5), ("mix_weights", None)])
def test_names_of_the_components_own_mix_are_still_known(expected, setting, value):
    nlp = spacy.load(FOLDER / "pipeline", config={f"components.elmo.{setting}": value})
    tensor = nlp(READ[0]).tensor
    if setting == "gamma":
        assert np.allclose(tensor, 2 * expected["tensor0"], atol=1e-5)
    else:
        assert np.allclose(tensor, 0.75 * expected["layers0"].mean(0), atol=1e-5)
    elmo = add_elmo(spacy.blank("en"), mix_weights=[1.0, 2.0, 3.0], gamma=2.0)
    assert elmo.predict([nlp.make_doc("a")])


@pytest.fixture
def layers(tmp_path):
    path = tmp_path / "layers"
    with gzip.open(FOLDER / "layers.gz") as source, path.open("wb") as target:
        shutil.copyfileobj(source, target)
    return path


def test_layer_cache_file_is_read(layers, expected):
    """Its keys too, as long as vectors have the same bits."""
    (sentence,) = SAID["sentences"]
    cache = FileCache(layers, 1 << 24)
    key = key_of(SAID["context"], sentence)
    assert np.allclose(cache.read([key])[key], expected["layers0"], atol=1e-6)
    cache.close()

    elmo = spacy.load(FOLDER / "pipeline").get_pipe("elmo")
    elmo.use_layer_cache(layers)
    here = context_of(shim_of(elmo.model)).split()
    there = SAID["context"].split()
    # What is of this machine: torch's version, and what the processor can.
    here[-3:] = there[-3:]
    assert here == there
    doc = Doc(elmo.vocab, words=sentence)
    if context_of(shim_of(elmo.model)) == SAID["context"]:
        elmo(doc)
        assert elmo.layer_cache.hits == 1
    else:
        with pytest.warns(UserWarning, match="ELW08"):
            elmo(doc)
    assert np.allclose(doc._.elmo.layers, expected["layers0"], atol=1e-6)
