"""Mixes of layers, against autograd, and what may be mixed."""

import itertools

import numpy as np
import pytest
import spacy
import torch

from spacy_elmo.pipeline import ElmoListener, learned_mixes
from spacy_elmo.pipeline.encoder import LayerBatch
from spacy_elmo.pipeline.listener import build_listener
from spacy_elmo.pipeline.mix import EPSILON
from spacy_elmo.pipeline.settings import ListenerSettings
from spacy_elmo.pipeline.tok2vec import OwnElmo

from ..pipelines import add_elmo, examples

RNG = np.random.default_rng(0)
L1, D = 3, 8
LENGTHS = [4, 0, 1, 7]
MIXES = ["learned", "average", "top", "concat", 0, 1, -2]


def some_layers():
    layers = [RNG.normal(size=(L1, T, D)).astype("float32") for T in LENGTHS]
    layers[3][:, 2] = 0  # white space
    return layers


def batch_of(layers):
    lengths = [array.shape[1] for array in layers]
    return LayerBatch(np.concatenate(layers, axis=1), lengths)


def model_of(settings):
    model = ElmoListener("*", settings=settings)
    model.set_up(L1)
    if settings.is_weighted:
        model.set_param("W", RNG.normal(size=L1).astype("float32"))
    return model


def reference(settings, layers, W, gamma):
    """The same by torch, with the paper's formula written out."""
    if settings.layer_norm:
        layers = [torch.nn.functional.layer_norm(x, (D,), eps=EPSILON) for x in layers]
    if settings.mix == "concat":
        return [gamma * torch.cat(list(x), dim=1) for x in layers]
    if settings.mix == "learned":
        share = torch.softmax(W, 0)
    elif settings.mix == "average":
        share = torch.full((L1,), 1 / L1)
    else:
        share = torch.zeros(L1)
        share[-1 if settings.mix == "top" else settings.mix] = 1
    return [gamma * sum(s * h for s, h in zip(share, x)) for x in layers]


@pytest.mark.parametrize(
    ("kind", "layer_norm", "l2"),
    list(itertools.product(MIXES, [False, True], [0.0, 0.3])),
)
def test_values_and_gradients_against_autograd(kind, layer_norm, l2):
    settings = ListenerSettings(kind, layer_norm=layer_norm, l2=l2, gamma=1.7)
    model, layers = model_of(settings), some_layers()
    inputs = [torch.tensor(x, requires_grad=True) for x in layers]
    weights = model.get_param("W") if settings.is_weighted else np.zeros(L1, "float32")
    W = torch.tensor(weights, requires_grad=True)
    gamma = torch.tensor(1.7, requires_grad=True)
    expected = reference(settings, inputs, W, gamma)
    found, backprop = model.mix(batch_of(layers), True)
    dY = [RNG.normal(size=y.shape).astype("float32") for y in found]
    loss = sum((y * torch.tensor(d)).sum() for y, d in zip(expected, dY))
    if settings.is_weighted:
        loss = loss + l2 * (W**2).sum()
    loss.backward()
    d_layers = backprop(dY)()
    model.add_penalty()
    for d, (y, found_TD, x) in enumerate(zip(expected, found, inputs)):
        assert found_TD.dtype == np.float32
        assert np.allclose(found_TD, y.detach(), atol=1e-5)
        assert np.allclose(d_layers[d], x.grad, atol=1e-5)
    assert np.allclose(model.get_grad("gamma"), gamma.grad, atol=1e-4)
    if settings.is_weighted:
        assert np.allclose(model.get_grad("W"), W.grad, atol=1e-4)
    else:
        assert not model.has_param("W")


def test_mix_of_allennlp(gold):
    file = np.load(gold / "generated_by_allennlp" / "scalar_mix.npz")
    model = model_of(ListenerSettings())
    model.set_param("W", file["w"].astype("float32"))
    model.set_param("gamma", np.array([file["gamma"]], dtype="float32"))
    (found,), _ = model.mix(batch_of([file["tensors"].reshape(L1, -1, D)]), False)
    assert abs(found - file["plain"].reshape(-1, D)).max() < 1e-5


def test_dropout_is_of_training_alone_and_goes_back_through_its_mask():
    model = model_of(ListenerSettings(dropout=0.5))
    layers = batch_of([np.ones((L1, 50, D), dtype="float32")])
    (plain,), _ = model.mix(layers, False)
    (dropped,), backprop = model.mix(layers, True)
    kept = dropped != 0
    assert 0.3 < kept.mean() < 0.7
    assert np.allclose(dropped[kept], 2 * plain[kept])
    gradient = backprop([np.ones_like(dropped)])()[0]
    assert ((gradient.sum(0) != 0) == kept).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"mix": "best"},
        {"mix": True},
        {"dropout": 1.0},
        {"dropout": -0.1},
        {"l2": -1.0},
        {"mix": "top", "mix_weights": [1.0, 2.0, 3.0]},
    ],
)
def test_settings_that_mean_nothing(wrong):
    with pytest.raises(ValueError, match="EL085"):
        ListenerSettings(**wrong)
    with pytest.raises(ValueError, match="EL085"):
        build_listener(**wrong)


def tagger(**settings):
    listener = {"@architectures": "spacy-elmo.ElmoListener.v1", **settings}
    return {"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}}


def pipeline(**settings):
    nlp = spacy.blank("xx")
    add_elmo(nlp)
    nlp.add_pipe("tagger", config=tagger(**settings))
    return nlp


@pytest.mark.parametrize("layer", [3, -4])
def test_layer_that_does_not_exist(layer):
    with pytest.raises(ValueError, match=r"EL083.*last layer is 2"):
        pipeline(mix=layer)


def test_widths():
    nlp = pipeline(mix="concat", width=36)
    nlp.initialize(lambda: examples(nlp))
    with pytest.raises(
        ValueError, match=r"EL054.*12, but 'elmo' has vectors of width 36"
    ):
        pipeline(mix="concat", width=12).initialize()


def test_nothing_to_mix():
    nothing = LayerBatch(np.zeros((L1, 0, D), dtype="float32"), [])
    for kind in MIXES:
        found, backprop = model_of(ListenerSettings(kind)).mix(nothing, True)
        assert found == [] and len(backprop([])()) == 0
    nlp = pipeline(mix="top")
    nlp.initialize(lambda: examples(nlp))
    nlp.remove_pipe("elmo")
    with pytest.raises(ValueError, match="EL053"):
        learned_mixes(nlp)


@pytest.mark.parametrize("kind", MIXES)
def test_trains_saves_and_stands_alone(kind, tmp_path):
    settings = {"mix": kind, "layer_norm": True, "l2": 0.01, "gamma": 0.5}
    nlp = pipeline(**settings)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    listener = nlp.get_pipe("tagger").model.get_ref("tok2vec")
    assert isinstance(listener, ElmoListener)
    assert not listener.is_trained
    losses = [nlp.update(batch, sgd=optimizer)["tagger"] for _ in range(30)]
    assert losses[-1] < losses[0]
    assert listener.is_trained
    assert listener.get_param("gamma") != 0.5
    expected = nlp("She hates Paris now")
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    copied = loaded.get_pipe("tagger").model.get_ref("tok2vec").copy()
    assert copied.settings == listener.settings == ListenerSettings(**settings)
    other = spacy.blank("xx")
    other.add_pipe("tagger", source=loaded)
    loaded.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    own = loaded.get_pipe("tagger").model.get_ref("tok2vec")
    assert isinstance(own, OwnElmo) and own.settings == listener.settings
    loaded.remove_pipe("elmo")
    loaded.to_disk(tmp_path / "alone")
    for again in (loaded, spacy.load(tmp_path / "alone")):
        doc = again("She hates Paris now")
        assert [t.tag_ for t in doc] == [t.tag_ for t in expected]
        tok2vec = again.get_pipe("tagger").model.get_ref("tok2vec")
        assert np.allclose(
            tok2vec.predict([doc])[0], listener.predict([expected])[0], atol=1e-5
        )
    more = own.copy()
    assert isinstance(more, OwnElmo)
    assert np.array_equal(more.predict([doc])[0], own.predict([doc])[0])


@pytest.mark.parametrize(
    "settings",
    [
        {"mix": "top"},
        {"mix": 1, "gamma": 2.0},
        {"mix": "concat", "layer_norm": True},
        {"mix": "average", "layer_norm": True},
        {"mix_weights": [1.0, 2.0, -1.0], "gamma": 0.5},
    ],
)
def test_own_mix_has_the_same_settings_as_a_listeners(settings, tmp_path):
    """`doc.tensor`, and what a listener that is not trained gives."""
    nlp = spacy.blank("xx")
    elmo = add_elmo(nlp, **settings)
    nlp.add_pipe("tagger", config=tagger(**settings))
    listener = nlp.get_pipe("tagger").model.get_ref("tok2vec")
    nlp.initialize(lambda: examples(nlp))
    doc = nlp.make_doc("She hates  Paris now")
    nlp.get_pipe("elmo")(doc)
    assert np.allclose(doc.tensor, listener.predict([doc])[0], atol=1e-6)
    assert doc.tensor.flags.owndata
    nlp.to_disk(tmp_path)
    again = spacy.load(tmp_path)("She hates  Paris now")
    assert np.allclose(again.tensor, doc.tensor, atol=1e-6)
    assert elmo.settings.gamma == settings.get("gamma", 1.0)


def test_own_mix_of_what_there_is_not():
    for wrong, code in [
        ({"mix": 3}, "EL083"),
        ({"mix": "best"}, "EL085"),
        ({"mix_weights": [1.0]}, "EL085"),
    ]:
        with pytest.raises(ValueError, match=code):
            add_elmo(spacy.blank("xx"), **wrong)
    with pytest.raises(ValueError, match="EL085"):
        pipeline(mix_weights=[1.0, 2.0])
