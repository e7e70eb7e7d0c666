"""`nlp.pipe` and its listeners on a GPU wait for nothing but whether the vectors of the
batch before are finite, and copy only what they must to it: the words of a batch that
are not known, and where vectors come from and go."""

import pytest
import spacy
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.kernels import force

from ..fake_gpu import BUSY, IDLE, Array, gpu
from ..models import tiny_config
from ..pipelines import TAGGER, add_elmo

TEXTS = ["I like London", "She hates Paris now", " ", "", "We saw Kim in London"]


def made(monkeypatch, **settings):
    """A pipeline, its elmo and its listener, on a GPU without data."""
    config = tiny_config()
    monkeypatch.setattr(BiLM, "random", lambda config, seed: BiLM.empty(config))
    nlp = spacy.blank("xx")
    elmo = add_elmo(nlp, sizes=config, **settings)
    nlp.add_pipe("tagger", config=TAGGER)
    elmo.find_listeners(nlp.get_pipe("tagger"))
    return nlp, elmo, elmo.listeners[0]


@pytest.mark.parametrize("precision", ["float32", "tf32", "half"])
@pytest.mark.parametrize("mix", ["learned", "average", "top", "concat", 0])
def test_pipe_and_listeners(monkeypatch, mix, precision):
    with gpu(monkeypatch) as waits:
        settings = {"mix": mix, "layer_norm": True, "model": {"precision": precision}}
        nlp, elmo, listener = made(monkeypatch, **settings)
        list(elmo.pipe(map(nlp.make_doc, TEXTS)))  # weights are prepared
        waits.found.clear()
        Array.waits = []
        docs = list(elmo.pipe(map(nlp.make_doc, TEXTS)))
        vectors = listener.predict(docs)
    assert all(isinstance(doc.tensor, Array) for doc in docs)
    assert [len(x) for x in vectors] == [len(doc) for doc in docs]
    assert set(waits.found) == {IDLE} and Array.waits == []  # at the end


def test_a_layer_cache(monkeypatch):
    with gpu(monkeypatch) as waits:
        nlp, elmo, _ = made(monkeypatch)
        monkeypatch.setattr(BiLM, "fingerprint", lambda bilm: "weights")
        elmo.use_layer_cache("memory")
        for texts in (TEXTS, [*TEXTS, "All is new"]):
            waits.found.clear()
            Array.waits = []
            docs = list(elmo.pipe(map(nlp.make_doc, texts)))
        assert elmo.layer_cache.hits == 3
    assert (
        set(waits.found) == {IDLE} and Array.waits == [] and docs[0].tensor is not None
    )


def test_encode_copies_all_layers_at_once(monkeypatch):
    sentences = [["A", "cat", "sat"], [], ["I", "like", "Paris", "now"]]
    with gpu(monkeypatch) as waits:
        bilm = BiLM.empty(tiny_config()).eval()
        found = bilm.encode(sentences)
        assert set(waits.found) <= {IDLE, BUSY}  # for the layers, all at once
        waits.finite = False
        with pytest.raises(ValueError, match="EL078"):
            bilm.encode(sentences)
    width = bilm.config.width
    assert [x.shape for x in found] == [(3, len(s), width) for s in sentences]


@pytest.mark.parametrize("kernel", ["char_cnn", "definition"])
def test_words_that_are_not_known(monkeypatch, kernel):
    with gpu(monkeypatch) as waits, force(token_encoder=kernel), torch.no_grad():
        bilm = BiLM.empty(tiny_config()).eval()
        bilm.compute_token_vectors(["A", "cat", "sat" * 30])
    assert waits.found == []


def test_docs_without_tokens_have_no_address_on_a_gpu(monkeypatch):
    with gpu(monkeypatch) as waits:
        nlp, elmo, _ = made(monkeypatch)
        assert len(list(elmo.pipe(map(nlp.make_doc, ["", ""])))) == 2
    assert waits.found == []


@pytest.mark.parametrize("cache", [None, "memory"])
def test_the_gpu_is_busy_while_a_batch_is_checked(monkeypatch, cache):
    with gpu(monkeypatch) as waits:
        nlp, elmo, _ = made(monkeypatch)
        monkeypatch.setattr(BiLM, "fingerprint", lambda bilm: "weights")
        elmo.use_layer_cache(cache)
        docs = list(elmo.pipe(map(nlp.make_doc, TEXTS), batch_size=2))
        assert waits.found[0] == BUSY and set(waits.found) == {BUSY, IDLE}
        assert len(docs) == len(TEXTS)
        waits.finite, seen = False, []
        for _ in range(2):  # also what comes from the cache
            with pytest.raises(ValueError, match=r"EL078.*I like London"):
                seen += elmo.pipe(map(nlp.make_doc, TEXTS), batch_size=2)
        with pytest.raises(ValueError, match=r"EL078.*I like London"):
            elmo(nlp.make_doc("I like London"))
        listener = elmo.listeners[0]
        with pytest.raises(ValueError, match=r"EL078.*So it is"):
            listener.predict([nlp.make_doc("So it is")])
        handled = []
        elmo.set_error_handler(lambda name, pipe, docs, error: handled.append(docs))
        docs = list(elmo.pipe(map(nlp.make_doc, TEXTS), batch_size=2))
        assert [doc.text for doc in docs] == TEXTS  # one part was read before its check
        failed = [doc.text for some in handled for doc in some]
        assert failed == [text for text in TEXTS if text.strip()]
