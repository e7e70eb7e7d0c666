"""What spaCy does with pipelines: saving, copying, pickling, sourcing, replacing."""

import gc
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy as np
import pytest
import spacy
import torch

from spacy_elmo.bilm.kernels import check_precision, dispatch_key_of
from spacy_elmo.bilm.token_cache import TokenCache
from spacy_elmo.pipeline import ElmoListener
from spacy_elmo.pipeline.encoder import LayerBatch
from spacy_elmo.pipeline.layers import LayerStore
from spacy_elmo.pipeline.windows import DocPieces

from ..pipelines import (
    add_elmo,
    annotations,
    examples,
    listeners,
    mix_of,
    trained,
)


def test_saved_with_the_component(tmp_path):
    nlp = trained()
    expected, tensor = annotations(nlp), nlp("I like Paris").tensor
    mixes = [mix_of(listener) for listener in listeners(nlp)]
    nlp.to_disk(tmp_path)
    of_bytes = spacy.blank("xx").from_config(nlp.config).from_bytes(nlp.to_bytes())
    for loaded in (spacy.load(tmp_path), of_bytes):
        for a, b in zip(mixes, listeners(loaded), strict=True):
            for x, y in zip(a, mix_of(b)):
                assert np.array_equal(x, y)
        assert annotations(loaded) == expected
        assert np.allclose(loaded("I like Paris").tensor, tensor, atol=1e-6)


def test_sourced_from_another_pipeline():
    source = trained()
    expected = annotations(source)
    nlp = spacy.blank("xx")
    for name in ("elmo", "tagger", "ner"):
        nlp.add_pipe(name, source=source)
    assert annotations(nlp) == expected
    assert [listener.upstream for listener in listeners(nlp)] == [
        nlp.get_pipe("elmo")
    ] * 2


def test_select_pipes():
    nlp = trained()
    expected = annotations(nlp)
    with nlp.select_pipes(disable=["ner"]):
        assert [tag for tag, _ in annotations(nlp)] == [tag for tag, _ in expected]
    with nlp.select_pipes(enable=["elmo"]):
        assert nlp("I like Paris").tensor.any()
    with nlp.select_pipes(disable=["elmo"]):
        # Its listeners ask it for the layers they need; only doc.tensor isn't set.
        assert annotations(nlp) == expected
        assert nlp("I like Paris").tensor.size == 0
    assert annotations(nlp) == expected


def test_pickle_after_training():
    nlp = trained(frozen=False)
    loaded = pickle.loads(pickle.dumps(nlp))
    assert annotations(loaded) == annotations(nlp)
    assert [listener.upstream for listener in listeners(loaded)] == [
        loaded.get_pipe("elmo")
    ] * 2
    loaded.update(examples(loaded), sgd=loaded.create_optimizer())


def test_component_pickled_alone_says_what_is_missing():
    nlp = trained()
    tagger = pickle.loads(pickle.dumps(nlp.get_pipe("tagger")))
    with pytest.raises(ValueError, match="EL053"):
        tagger(nlp.make_doc("I like Paris"))


def test_rehearsal_copies_keep_their_upstream():
    nlp = trained()
    nlp.resume_training()
    nlp.rehearse(examples(nlp))


def test_deep_copies_listen_to_their_own_elmo():
    import copy

    nlp = trained()
    copied = copy.deepcopy(nlp)
    assert [listener.upstream for listener in listeners(copied)] == [
        copied.get_pipe("elmo")
    ] * 2
    assert [listener.upstream for listener in listeners(nlp)] == [
        nlp.get_pipe("elmo")
    ] * 2
    assert annotations(copied) == annotations(nlp)


def test_error_handler_is_pickled_along():
    nlp = trained()
    nlp.get_pipe("elmo").set_error_handler(spacy.util.ignore_error)
    loaded = pickle.loads(pickle.dumps(nlp.get_pipe("elmo")))
    assert loaded.get_error_handler() is spacy.util.ignore_error


@pytest.mark.parametrize(
    "method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)]
)
def test_several_processes_after_training(method, monkeypatch):
    import multiprocessing

    import spacy.language

    nlp = trained()
    expected = [annotations(nlp)] * 4
    torch.set_num_threads(2)  # threads that a fork does not take along
    try:
        nlp("A warm start " * 50)
        monkeypatch.setattr(spacy.language, "mp", multiprocessing.get_context(method))
        found = [
            [(token.tag_, token.ent_type_) for token in doc]
            for doc in nlp.pipe(["I like Paris now"] * 4, n_process=2, batch_size=2)
        ]
    finally:
        torch.set_num_threads(1)
    assert found == expected


def test_threads_of_the_user_share_a_pipeline():
    """Each its own Docs: every Doc has the vectors and the tags that it has alone."""
    nlp = trained()
    nlp.get_pipe("elmo").bilm.token_cache = TokenCache(3)
    texts = [f"I like number {i} of {'Paris ' * (i % 5)}" for i in range(24)]
    expected = [(doc.tensor, [t.tag_ for t in doc]) for doc in map(nlp, texts)]

    def pipe(_):
        docs = nlp.pipe(texts, batch_size=4)
        return [(doc.tensor, [t.tag_ for t in doc]) for doc in docs]

    with ThreadPoolExecutor(6) as pool:
        for found in pool.map(pipe, range(12)):
            for (a, a_tags), (b, b_tags) in zip(found, expected, strict=True):
                assert abs(a - b).max() < 1e-5 and a_tags == b_tags


def test_a_gpu_that_is_too_small_is_asked_for_halves():
    nlp = trained()
    elmo = nlp.get_pipe("elmo")
    docs = [nlp.make_doc("word " * n) for n in (3, 9, 1, 5, 8)]
    expected = list(elmo.predict(docs).layers)
    real = elmo.bilm.forward

    def forward(batch, *args):
        if len(batch.word_N) > 20:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return real(batch, *args)

    elmo.bilm.forward = forward
    with pytest.warns(UserWarning, match="ELW06"):
        found = list(elmo.predict(docs).layers)
    for a, b in zip(found, expected, strict=True):
        assert a == pytest.approx(b, abs=1e-6)


@pytest.mark.parametrize("precision", ["float32", "half", "int8", "quarter", "tf32"])
def test_precision_of_a_pipeline(precision, tmp_path):
    """Saved with it, loaded with another, and refused where there is none such."""
    try:
        check_precision(precision, dispatch_key_of(torch.empty(0), "float32"))
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)[1:6]):
            add_elmo(spacy.blank("xx"), model={"precision": precision})
        return
    nlp = spacy.blank("xx")
    rough = add_elmo(nlp, model={"precision": precision})
    doc = nlp("I like Paris")
    assert rough.bilm.precision == precision
    nlp.to_disk(tmp_path)
    assert np.array_equal(spacy.load(tmp_path)("I like Paris").tensor, doc.tensor)
    exact = spacy.load(tmp_path, config={"components.elmo.model.precision": "float32"})
    tensor = exact("I like Paris").tensor
    assert exact.get_pipe("elmo").bilm.precision == "float32"
    assert np.array_equal(tensor, doc.tensor) is (precision == "float32")
    assert abs(tensor - doc.tensor).max() < 0.1


def test_listener_copies_stay_listeners():
    nlp = trained()
    copied = nlp.get_pipe("tagger").model.copy()
    (listener,) = [node for node in copied.walk() if isinstance(node, ElmoListener)]
    assert listener.upstream is nlp.get_pipe("elmo")
    assert np.array_equal(listener.get_param("W"), listeners(nlp)[0].get_param("W"))


def test_layers_are_held_and_counted_by_many_threads():
    """However threads meet, no more than max_bytes are held in the end."""
    nlp = spacy.blank("xx")
    docs = [nlp.make_doc(f"number {i}") for i in range(80)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def hold(some):
        for doc in some:
            layers = LayerBatch(np.zeros((1, len(doc), 6), dtype="float32"), [len(doc)])
            store.put([DocPieces(doc, [])], layers, {1})
            assert store.held_bytes <= 64 * 12 * 5

    try:
        for _ in range(300):
            store = LayerStore(max_bytes=64 * 12)
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(hold, (docs[i::4] for i in range(4))))
            assert 0 < store.held_bytes <= 64 * 12
    finally:
        sys.setswitchinterval(before)
    del docs
    gc.collect()
    assert store.held_bytes == 0


def test_a_listener_can_ask_for_the_first_time_at_any_moment():
    """As when another thread runs its component while this one annotates a Doc."""
    nlp = trained()
    elmo, docs = nlp.get_pipe("elmo"), [nlp.make_doc("I like Paris")]
    first, second = listeners(nlp)
    encoded = elmo.predict(docs)
    for moment in count(1):
        elmo.remove_listener(second, "none")  # as if it had not asked yet
        list(elmo.layers_for(first, docs, False))
        moments = count(1)

        def ask(*_, moment=moment, moments=moments):
            if next(moments) == moment:
                list(elmo.layers_for(second, docs, False))

        sys.setprofile(ask)
        try:
            elmo.set_annotations(docs, encoded)
        finally:
            sys.setprofile(None)
        if next(moments) <= moment:
            break
    assert moment > 50


def test_a_doc_that_is_read_again_is_known_all_the_while():
    doc = spacy.blank("xx").make_doc("a cat")
    layers = LayerBatch(np.zeros((1, 2, 6), dtype="float32"), [2])
    store, stop = LayerStore(max_bytes=1 << 20), threading.Event()
    store.put([DocPieces(doc, [])], layers, {1})

    def put_again():
        while not stop.is_set():
            store.put([DocPieces(doc, [])], layers, {1})

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(put_again)
            found = [store.record(doc).pieces for _ in range(50_000)]
            stop.set()
    finally:
        sys.setswitchinterval(before)
    assert all(pieces is not None for pieces in found)


def test_layers_of_a_doc_that_are_read_again_for_listeners_are_its_own():
    """The layers that a user asked for were released; a listener then reads the Doc
    with others, and the next listener waits for them."""
    nlp = trained(max_layers_mb=1)
    elmo = nlp.get_pipe("elmo")
    docs = [nlp.make_doc("A cat"), nlp.make_doc("It slept well")]
    list(elmo.pipe(docs))
    expected = [doc._.elmo.layers.copy() for doc in docs]
    others = [nlp.make_doc("I like Paris now " * 150) for _ in range(20)]
    list(elmo.pipe(others, batch_size=1))
    with pytest.warns(UserWarning, match="ELW23"):
        list(nlp.get_pipe("tagger").pipe(docs))
    for doc, layers in zip(docs, expected):
        assert doc._.elmo.layers.shape == layers.shape
        assert abs(doc._.elmo.layers - layers).max() < 1e-6
