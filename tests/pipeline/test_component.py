"""`doc.tensor` and `doc._.elmo`, whatever the Doc."""

import gc
import pickle
import warnings
import weakref

import numpy as np
import pytest
import spacy
import torch
from hypothesis import given, settings
from spacy import ty
from spacy.tokens import Doc, DocBin

from spacy_elmo import models as shipped
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.pipeline import shim
from spacy_elmo.pipeline.readers import configure_weights_reader

from ..models import any_sentence, tiny_config
from ..pipelines import add_elmo, examples, trained


@pytest.fixture(scope="module")
def nlp():
    nlp = spacy.blank("xx")
    nlp.add_pipe("sentencizer")
    add_elmo(nlp)
    return nlp


def bilm_of(nlp):
    return nlp.get_pipe("elmo").bilm


def test_bare_add_pipe_uses_the_shipped_model_without_initialize():
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo")
    doc = nlp("He sat on the bank.")
    assert isinstance(elmo, ty.ListenedToComponent)
    assert doc.tensor.shape == (6, shipped.load("en").config.width)
    expected = shipped.load("en").encode([[token.text for token in doc]])[0]
    assert abs(doc._.elmo.layers - expected).max() < 1e-5


def test_tensor_is_the_mix_of_the_layers_of_each_sentence(nlp):
    doc = nlp("A cat sat. It slept, and 가 slept.")
    sentences = [[token.text for token in sentence] for sentence in doc.sents]
    assert len(sentences) == 2
    expected = np.concatenate(bilm_of(nlp).encode(sentences), axis=1)
    assert doc._.elmo.layers.shape == (3, len(doc), 12)
    assert abs(doc._.elmo.layers - expected).max() < 1e-6
    assert abs(doc._.elmo["elmo"] - expected).max() < 1e-6
    assert doc.tensor.dtype == np.float32 and doc.tensor.flags.owndata
    assert abs(doc.tensor - expected.mean(0)).max() < 1e-6
    assert np.array_equal(doc[3].vector, doc.tensor[3])


def test_own_weights_of_the_mix():
    nlp = spacy.blank("xx")
    elmo = add_elmo(nlp, mix_weights=[0.0, 1.0, -1.0], gamma=2.0)
    doc = nlp("A cat")
    share = np.exp([0.0, 1.0, -1.0]) / np.exp([0.0, 1.0, -1.0]).sum()
    expected = 2 * np.einsum("l,ltd->td", share, elmo.bilm.encode([["A", "cat"]])[0])
    assert abs(doc.tensor - expected).max() < 1e-5


def test_white_space_has_zeros_and_is_not_read(nlp):
    doc = nlp("A  cat \n\n sat.")
    spaces = [token.i for token in doc if token.is_space]
    assert spaces and doc.tensor.shape == (len(doc), 12)
    assert not doc.tensor[spaces].any() and not doc._.elmo.layers[:, spaces].any()
    words = [token.i for token in doc if not token.is_space]
    assert abs(doc.tensor[words] - nlp("A cat sat.").tensor).max() < 1e-6


@pytest.mark.parametrize("text", ["", " ", " \n\t "])
def test_docs_without_words(nlp, text):
    doc = nlp(text)
    assert doc.tensor.shape == (len(doc), 12) and not doc.tensor.any()
    assert [d.tensor.shape for d in nlp.pipe([text, "a", text])][1] == (1, 12)


@settings(max_examples=30, deadline=None)
@given(words=any_sentence)
def test_any_tokens(nlp, words):
    # What a Doc can't hold (lone surrogates, empty strings) is no token of spaCy's.
    words = [word for word in words if word and word.isprintable()]
    doc = nlp.get_pipe("elmo")(Doc(nlp.vocab, words=words))
    assert doc.tensor.shape == (len(doc), 12) and np.isfinite(doc.tensor).all()


def test_very_long_token(nlp):
    doc = nlp.get_pipe("elmo")(Doc(nlp.vocab, words=["a", "x" * 10_000, "b"]))
    assert doc.tensor.shape == (3, 12) and np.isfinite(doc.tensor).all()


def test_long_doc_without_sentences_is_read_in_windows():
    nlp = spacy.blank("xx")
    elmo = add_elmo(nlp)
    doc = Doc(nlp.vocab, words=["word", "other"] * 5_000)
    with pytest.warns(UserWarning, match="ELW01"):
        elmo(doc)
    assert doc.tensor.shape == (10_000, 12)
    assert abs(doc.tensor[:250] - doc.tensor[250:500]).max() < 1e-6  # each window alone
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        elmo(doc)


def test_windows_are_bounded_and_near_equal():
    nlp = spacy.blank("xx")
    windows = {"@misc": "spacy-elmo.Windows.v1", "length": 4}
    elmo = add_elmo(nlp, model={"get_spans": windows})
    words = list("abcdefghij")
    doc = Doc(nlp.vocab, words=words)
    with pytest.warns(UserWarning, match="ELW01"):
        elmo(doc)
    expected = np.concatenate(
        elmo.bilm.encode([words[:4], words[4:7], words[7:]]), axis=1
    )
    assert abs(doc._.elmo.layers - expected).max() < 1e-6
    sentence = Doc(nlp.vocab, words=words, sent_starts=[True] + [False] * 9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # its sentence is known, only too long
        assert abs(elmo(sentence).tensor - doc.tensor).max() < 1e-6
    with pytest.raises(ValueError, match=r"EL026.*length"):
        add_elmo(spacy.blank("xx"), model={"get_spans": {**windows, "length": 0}})


def test_pipe_keeps_order_and_gives_the_same_vectors(nlp):
    texts = [f"Text {i} {'word ' * (i % 7)}." for i in range(40)]
    for doc, text in zip(nlp.pipe(texts, batch_size=7), texts):
        assert doc.text == text
        assert abs(doc.tensor - nlp(text).tensor).max() < 1e-6


def test_error_handler_gets_the_docs_that_fail(nlp, monkeypatch):
    seen = []
    elmo = nlp.get_pipe("elmo")
    real = elmo.predict

    def failing(docs):
        if any(doc.text == "bad" for doc in docs):
            raise RuntimeError("no")
        return real(docs)

    monkeypatch.setattr(elmo, "predict", failing)
    elmo.set_error_handler(
        lambda name, proc, docs, error: seen.extend(d.text for d in docs)
    )
    try:
        out = [doc.text for doc in nlp.pipe(["a", "bad", "b"], batch_size=1)]
    finally:
        elmo.set_error_handler(spacy.util.raise_error)
    assert (out, seen) == (["a", "b"], ["bad"])


def test_layers_are_computed_once_for_who_asks_twice(nlp):
    doc = nlp("A cat sat.")
    assert doc._.elmo.layers is doc._.elmo.layers
    assert doc._.elmo["elmo"] is doc._.elmo.layers


def test_layers_can_not_be_changed(nlp):
    doc = nlp("A cat sat.")
    with pytest.raises(ValueError, match="read-only"):
        doc._.elmo.layers[:] = 0


def test_layers_of_other_weights_are_forgotten(tmp_path):
    nlp = spacy.blank("xx")
    elmo = add_elmo(nlp)
    doc = nlp("A cat sat.")
    before = doc._.elmo.layers
    BiLM.random(tiny_config(), seed=7).save(tmp_path)
    elmo.load_weights(tmp_path)
    assert abs(doc._.elmo.layers - before).max() > 0.1
    assert abs(doc._.elmo.layers - nlp("A cat sat.")._.elmo.layers).max() < 1e-6


def test_the_last_component_counts():
    nlp = spacy.blank("xx")
    first = add_elmo(nlp, name="first")
    add_elmo(nlp, name="second", seed=2)
    doc = first(nlp("A cat"))
    assert np.array_equal(doc._.elmo.layers, doc._.elmo["first"])


def test_layers_vanish_with_the_doc_and_never_travel(nlp):
    doc = nlp("A cat sat.")
    assert not doc.user_data
    copied = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert np.array_equal(copied.tensor, doc.tensor)
    assert np.array_equal(pickle.loads(pickle.dumps(doc)).tensor, doc.tensor)
    for other in (copied, next(DocBin(docs=[doc]).get_docs(nlp.vocab))):
        with pytest.raises(ValueError, match="EL055"):
            _ = other._.elmo.layers
    assert nlp.get_pipe("elmo").held_bytes == 0
    gone = weakref.ref(doc)
    del doc
    gc.collect()
    assert gone() is None


def test_layers_come_from_the_sentences_that_were_read(nlp):
    """Also when they are asked for after sentence boundaries have changed."""
    doc = nlp("A cat sat. It slept.")
    before = doc._.elmo.layers
    for token in doc:
        token.is_sent_start = token.i == 0
    assert np.array_equal(doc._.elmo.layers, before)


def test_layers_after_retokenising(nlp):
    """Merged or split tokens are read anew, as they are now."""
    doc = nlp("A cat sat.")
    before = doc._.elmo.layers
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    after = doc._.elmo.layers
    assert after.shape == (3, 3, 12)
    expected = bilm_of(nlp).encode([["A cat", "sat", "."]])[0]
    assert abs(after - expected).max() < 1e-6 and before.shape == (3, 4, 12)


@pytest.mark.parametrize("read_before", [True, False])
def test_layers_after_merging_and_splitting_as_many_tokens(nlp, read_before):
    """One token less and one more: as many as before, and others."""
    doc = nlp("a b c def")
    if read_before:
        assert doc._.elmo.layers.shape == (3, 4, 12)
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
        retokenizer.split(doc[3], ["d", "ef"], heads=[(doc[3], 1), doc[2]])
    assert [token.text for token in doc] == ["a b", "c", "d", "ef"]
    expected = bilm_of(nlp).encode([["a b", "c", "d", "ef"]])[0]
    assert abs(doc._.elmo.layers - expected).max() < 1e-6


def test_layers_after_merging_and_splitting_back(nlp):
    """In two passes, with layers read in between."""
    doc = nlp("a b c d e f")
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    assert doc._.elmo.layers.shape == (3, 5, 12)
    with doc.retokenize() as retokenizer:
        retokenizer.split(doc[0], ["a ", "b"], heads=[(doc[0], 1), doc[1]])
    assert doc._.elmo.layers.shape == (3, 6, 12)
    expected = bilm_of(nlp).encode([[token.text for token in doc]])[0]
    assert abs(doc._.elmo.layers - expected).max() < 1e-6


def test_layers_after_a_merge_are_computed_once(nlp, monkeypatch):
    doc = nlp("A cat sat.")
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    n_runs = []
    real = BiLM.forward
    monkeypatch.setattr(BiLM, "forward", lambda *args: n_runs.append(1) or real(*args))
    layers = [doc._.elmo.layers for _ in range(20)]
    assert len(n_runs) == 1 and all(array is layers[0] for array in layers)


def test_tensor_left_to_a_stock_tok2vec():
    nlp = spacy.blank("xx")
    add_elmo(nlp, set_tensor=False)
    doc = nlp("A cat")
    assert doc.tensor.size == 0 and doc._.elmo.layers.shape == (3, 2, 12)


def test_memory_zone(nlp):
    with nlp.memory_zone():
        tensors = [doc.tensor for doc in nlp.pipe(["A cat sat.", "새로운 낱말"])]
    assert abs(tensors[0] - nlp("A cat sat.").tensor).max() < 1e-6


def test_two_components_of_different_models():
    nlp = spacy.blank("xx")
    add_elmo(nlp, name="small")
    add_elmo(nlp, name="wide", sizes=tiny_config(projection_dim=8), seed=2)
    doc = nlp("A cat")
    assert doc._.elmo["small"].shape == (3, 2, 12)
    assert doc._.elmo["wide"].shape == doc._.elmo.layers.shape == (3, 2, 16)
    assert doc.tensor.shape == (2, 16)
    with pytest.raises(ValueError, match="EL055"):
        doc._.elmo["other"]


def test_language_for_which_nothing_ships():
    nlp = spacy.blank("xx")
    elmo = nlp.add_pipe("elmo")
    reader = configure_weights_reader(None)
    for use in (
        lambda: nlp("고양이 가 잔다"),
        lambda: elmo.initialize(lambda: examples(nlp)),
        lambda: elmo.initialize(lambda: examples(nlp), weights=reader),
        nlp.to_bytes,
    ):
        with pytest.raises(ValueError, match=r"EL081.*'en_elmo.*' for 'en'"):
            use()
    elmo.load_weights(shipped.MODELS["en"])
    doc = nlp("고양이 가 잔다")
    assert np.isfinite(doc.tensor).all() and doc.tensor.any()


def test_on_apple_gpus_the_bilm_runs_on_the_cpu_and_says_so(monkeypatch):
    expected = trained()("I like Paris now").tensor
    mps = torch.device("mps")  # which this torch may not know
    monkeypatch.setattr(shim, "get_torch_default_device", lambda: mps)
    with pytest.warns(UserWarning, match=r"ELW53.*CPU.*mps"):
        nlp = trained()
    assert nlp.get_pipe("elmo").bilm.device.type == "cpu"
    assert np.array_equal(nlp("I like Paris now").tensor, expected)
