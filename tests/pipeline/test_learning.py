"""What listeners and a shared biLM learn: gradients, and training as spaCy does it."""

import gc
import warnings
import weakref

import numpy as np
import pytest
import spacy
import torch
from spacy.training import Example
from thinc.api import ConfigValidationError

from spacy_elmo import BiLM
from spacy_elmo.bilm.encode import pack
from spacy_elmo.pipeline import ElmoListener

from ..models import tiny_config
from ..pipelines import (
    TAGGER,
    add_elmo,
    annotations,
    examples,
    listeners,
    moved,
    parameters,
    pipeline,
    sizes,
    trained,
    with_weights,
)


def test_gradients_of_mix_and_bilm_equal_autograd():
    """Three listeners with mixes of their own on one biLM that learns; the first and
    the last read only some of the Docs."""
    nlp = spacy.blank("xx")
    elmo = add_elmo(nlp, frozen=False, learn_rate_factor=1.0)
    rng = np.random.default_rng(0)
    models = [ElmoListener("*") for _ in range(3)]
    for model in models:
        elmo.add_listener(model, "test")
        model.set_param("W", rng.normal(size=3).astype("f4"))
        model.set_param("gamma", rng.normal(size=1).astype("f4"))
    docs = [nlp.make_doc("A cat sat"), nlp.make_doc("가 나"), nlp.make_doc("")]
    read = [docs[1:], docs, [docs[1], docs[0]]]
    weights = [
        [rng.normal(size=(len(d), 12)).astype("f4") for d in some] for some in read
    ]

    elmo.update([Example(doc, doc) for doc in docs])
    outputs = []
    for model, some, dY in zip(models, read, weights):
        Y, backprop = model.begin_update(some)
        outputs.append(Y)
        backprop(dY)
    found = gradients_of(elmo)

    bilm = elmo.bilm
    loss, mixes = 0.0, []
    for model, some, dY, Y in zip(models, read, weights, outputs):
        W, gamma = (torch.tensor(model.get_param(name)) for name in ("W", "gamma"))
        mixes.append((W.requires_grad_(), gamma.requires_grad_()))
        for doc, d, y in zip(some, dY, Y, strict=True):
            if not len(doc):
                continue
            batch = pack([[token.text for token in doc]])
            layers = [layer[batch.positions[0]] for layer in bilm(batch)[0]]
            shares = torch.softmax(W, 0)
            expected = gamma * sum(s * layer for s, layer in zip(shares, layers))
            assert abs(expected.detach().numpy() - y).max() < 1e-5
            loss = loss + (expected * torch.from_numpy(d)).sum()
    loss.backward()
    for model, (W, gamma) in zip(models, mixes):
        assert abs(model.get_grad("W") - W.grad.numpy()).max() < 1e-4
        assert abs(model.get_grad("gamma") - gamma.grad.numpy()).max() < 1e-4
    for name, parameter in bilm.named_parameters():
        assert np.allclose(found[name], parameter.grad.numpy(), atol=1e-4), name


def test_gradients_are_those_of_one_copy_each_summed_up():
    """A shared biLM learns what two components with copies of it would, together."""
    nlp = pipeline(frozen=False, learn_rate_factor=1.0)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    nlp.update(batch, sgd=optimizer)  # a new tagger starts from zeros and gives none
    gradients_of(nlp.get_pipe("elmo"))

    def gradient(frozen_components):
        elmo = nlp.get_pipe("elmo")
        spacy.util.fix_random_seed(0)  # ner cuts its sequences at random
        shared = [Example(eg.x.copy(), eg.y) for eg in batch]
        elmo.update(shared)
        for name in ("tagger", "ner"):
            if name not in frozen_components:
                nlp.get_pipe(name).update(shared)
        return gradients_of(elmo)

    both, tagger, ner = gradient([]), gradient(["ner"]), gradient(["tagger"])
    for name in both:
        assert np.allclose(both[name], tagger[name] + ner[name], atol=1e-5), name
    assert any(gradient.any() for gradient in tagger.values())
    assert any(gradient.any() for gradient in ner.values())


@pytest.mark.parametrize("frozen", [True, False])
def test_mixes_learn_apart_and_the_bilm_only_if_it_may(frozen):
    nlp = pipeline(frozen=frozen)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    optimizer.learn_rate = 0.05
    before = parameters(nlp)
    losses = []
    for _ in range(30):
        losses.append(nlp.update(batch, sgd=optimizer))
    assert moved(before, nlp) is not frozen
    tagger, ner = listeners(nlp)
    assert not np.allclose(tagger.get_param("W"), ner.get_param("W"))
    for listener in (tagger, ner):
        assert listener.get_param("gamma") != 1
    assert losses[-1]["tagger"] < losses[0]["tagger"] / 2
    assert losses[-1]["ner"] < losses[0]["ner"]
    assert nlp.evaluate(batch)["tag_acc"] >= 0.9


@pytest.mark.parametrize("off", ["tagger", "ner"])
def test_either_listener_frozen_or_disabled(off):
    """The stock protocol lets the last listener run the backward pass, and learns
    nothing when that one is switched off."""
    nlp = pipeline(frozen=False)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    for how in (
        lambda: nlp.select_pipes(disable=[]),
        lambda: nlp.select_pipes(disable=[off]),
    ):
        before = parameters(nlp)
        with how():
            # An output layer of zeros, as it begins with, lets no gradient through.
            for _ in range(3):
                nlp.update(batch, sgd=optimizer, exclude=[off])
        assert moved(before, nlp)


def test_one_update_at_a_time_by_hand_as_spacy_train_does():
    nlp = pipeline(frozen=False)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    for _ in range(2):  # see above
        before = parameters(nlp)
        nlp.update(batch, sgd=False)
        for _, component in nlp.pipeline:
            component.finish_update(optimizer)
    assert moved(before, nlp)  # not a step late


def test_annotating_component_keeps_the_gradient():
    nlp = pipeline(frozen=False)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    for _ in range(2):  # see above
        before = parameters(nlp)
        nlp.update(batch, sgd=False, annotates=["elmo"])
        for _, component in nlp.pipeline:
            component.finish_update(optimizer)
    assert moved(before, nlp)


def test_listed_among_frozen_components():
    """Then its update is never called: listeners must still get layers."""
    nlp = pipeline()
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    optimizer.learn_rate = 0.05
    losses = [nlp.update(batch, sgd=optimizer, exclude=["elmo"]) for _ in range(20)]
    assert losses[-1]["tagger"] < losses[0]["tagger"] / 2


def test_frozen_components_are_initialised_with_their_listeners(tmp_path):
    """spaCy leaves out what training.frozen_components lists: it is disabled."""
    BiLM.random(tiny_config(), seed=7).save(tmp_path)
    reader = {"@readers": "spacy-elmo.WeightsReader.v1", "path": str(tmp_path)}
    nlp = spacy.blank("xx")
    elmo = nlp.add_pipe("elmo", config={"model": sizes(tiny_config())})
    nlp.add_pipe("tagger", config=TAGGER)
    block = {"weights": reader, "layer_cache": "memory"}
    nlp.config["initialize"]["components"] = {"elmo": block}
    batch = [Example.from_dict(nlp.make_doc("a b"), {"tags": ["X", "Y"]})]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with nlp.select_pipes(disable=["elmo"]):
            optimizer = nlp.initialize(lambda: batch)
        for _ in range(3):
            nlp.update(batch, sgd=optimizer, exclude=["elmo"])
        nlp.evaluate(batch)
    assert elmo.fingerprint() == BiLM.load(tmp_path).fingerprint()
    assert elmo.layer_cache.hits > 0


def test_a_frozen_component_keeps_the_weights_that_it_has(tmp_path):
    BiLM.random(tiny_config(), seed=7).save(tmp_path)
    reader = {"@readers": "spacy-elmo.WeightsReader.v1", "path": str(tmp_path)}
    nlp = pipeline()
    before = nlp.get_pipe("elmo").fingerprint()
    nlp.config["initialize"]["components"] = {"elmo": {"weights": reader}}
    with nlp.select_pipes(disable=["elmo"]):
        nlp.initialize(lambda: examples(nlp))
    assert nlp.get_pipe("elmo").fingerprint() == before


@pytest.mark.parametrize(
    "block", [{"layer_cach": "memory"}, {"layer_cache_mb": "many"}, {"weights": "x"}]
)
def test_settings_of_a_frozen_component_are_checked_as_spacy_does_it(block):
    nlp = pipeline()
    nlp.config["initialize"]["components"] = {"elmo": block}
    batch = examples(nlp)
    with pytest.raises(ConfigValidationError) as expected:
        nlp.initialize(lambda: batch)
    with (
        nlp.select_pipes(disable=["elmo"]),
        pytest.raises(ConfigValidationError) as found,
    ):
        nlp.initialize(lambda: batch)
    assert str(found.value) == str(expected.value)


def test_weights_of_this_package_are_never_taken_in_silence():
    """Where nothing was initialised."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.add_pipe("tagger", config=TAGGER)
    (listener,) = listeners(nlp)
    with pytest.warns(UserWarning, match="ELW04"):
        listener.predict([nlp.make_doc("a b")])


def test_accumulated_gradients_are_applied_once():
    """Two half batches and one step of the optimizer give what a whole batch gives."""
    found = []
    for parts in ([[0, 1, 2]], [[0], [1, 2]]):
        nlp = pipeline(frozen=False)
        batch = examples(nlp)
        spacy.util.fix_random_seed(0)
        optimizer = nlp.initialize(lambda batch=batch: batch)
        nlp.select_pipes(disable=["ner"])
        for _ in range(3):
            for part in parts:
                nlp.update([batch[i] for i in part], sgd=False)
            for _, component in nlp.pipeline:
                component.finish_update(optimizer)
        found.append(parameters(nlp))
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(*found))


def test_late_gradients_belong_to_the_weights_they_were_made_with():
    """nlp.update finishes elmo before its listeners: the gradient is applied before
    the next forward pass, and nothing changes the weights in between."""
    nlp = trained(frozen=False, steps=2, learn_rate_factor=1.0)
    elmo, batch = nlp.get_pipe("elmo"), examples(nlp)
    adam = nlp.create_optimizer()
    seen = {}

    def watched(key, weights, gradient):
        seen.setdefault(key[1], weights.copy())
        return adam(key, weights, gradient)

    nlp.update(batch, sgd=watched)
    bilm = elmo.model.layers[0].shims[0].bilm  # `elmo.bilm` would apply the gradient
    after_first = {
        f"torch.{name}": p.detach().clone() for name, p in bilm.named_parameters()
    }
    seen.clear()
    nlp.update(batch, sgd=watched)
    stepped = after_first.keys() & seen.keys()
    assert stepped
    for name in stepped:
        assert np.array_equal(seen[name], after_first[name].numpy())
    assert moved(list(after_first.values()), nlp)


def test_train_then_freeze():
    nlp = trained(frozen=False)
    nlp.get_pipe("elmo").frozen = True
    before = parameters(nlp)
    nlp.update(examples(nlp), sgd=nlp.create_optimizer())
    assert not moved(before, nlp)


def test_frozen_bilm_is_run_without_autograd(monkeypatch):
    nlp = pipeline()
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    elmo, enabled = nlp.get_pipe("elmo"), []
    shim = elmo.model.layers[0].shims[0]
    monkeypatch.setattr(shim, "begin_update", lambda inputs: pytest.fail("autograd"))
    for module in elmo.bilm.modules():
        module.register_forward_hook(lambda *_: enabled.append(torch.is_grad_enabled()))
    nlp.update(batch, sgd=optimizer)
    assert enabled and not any(enabled)


def test_nothing_is_held_between_updates_or_after_a_pipe():
    nlp = trained(frozen=False)
    elmo = nlp.get_pipe("elmo")
    docs = list(nlp.pipe(["A b", "c d e", "f"]))
    assert elmo.held_bytes == 0  # every listener has read them
    assert docs[0]._.elmo.layers.shape == (3, 2, 12)  # and still they can be had
    assert elmo.held_bytes == 3 * 2 * 12 * 4
    del docs
    batch = examples(nlp)
    optimizer = nlp.create_optimizer()
    nlp.update(batch, sgd=optimizer)
    elmo.finish_update(optimizer)  # as the next update would, before it begins
    gone = [weakref.ref(example.predicted) for example in batch]
    del batch
    gc.collect()
    assert all(doc() is None for doc in gone) and elmo.held_bytes == 0


def test_layers_waiting_for_listeners_are_bounded():
    """Whatever nlp.batch_size is; what was released is computed again, and said so."""
    nlp = trained(max_layers_mb=1)
    elmo = nlp.get_pipe("elmo")
    text = "I like Paris now " * 150
    docs = [nlp.make_doc(text) for _ in range(20)]  # 1.7 MB of layers
    expected = annotations(nlp, text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        docs = list(elmo.pipe(docs[:5])) + list(elmo.pipe(docs[5:10], batch_size=2))
        assert elmo.held_bytes == 10 * 600 * 3 * 12 * 4
        docs += elmo.pipe([nlp.make_doc(text) for _ in range(10)], batch_size=1)
        assert 800_000 < elmo.held_bytes <= 1 << 20
    with pytest.warns(UserWarning, match=r"ELW23.*max_layers_mb = 1"):
        docs = list(nlp.get_pipe("tagger").pipe(docs))
    docs = list(nlp.get_pipe("ner").pipe(docs))
    found = [[(token.tag_, token.ent_type_) for token in doc] for doc in docs]
    assert found == [expected] * 20
    assert elmo.held_bytes == 0


@pytest.mark.parametrize("source", ["python", "config"])
def test_batch_size_of_the_pipeline_is_left_alone(source):
    """And makes no difference to what is held."""
    nlp = pipeline(max_layers_mb=4)
    nlp.initialize(lambda: examples(nlp))
    if source == "config":
        again = spacy.util.load_model_from_config(nlp.config, auto_fill=True)
        with_weights(again.get_pipe("elmo"), nlp.get_pipe("elmo").bilm)
        again.initialize(lambda: examples(again))
        nlp = again
    assert nlp.batch_size == nlp.config["nlp"]["batch_size"] == 1000
    elmo = nlp.get_pipe("elmo")
    docs, sizes = [], []
    for doc in elmo.pipe(
        (nlp.make_doc("a " * 100) for _ in range(600)), batch_size=1000
    ):
        docs.append(doc)
        sizes.append(elmo.held_bytes)
    assert 2_000_000 < max(sizes) <= 4 << 20


def gradients_of(elmo):
    """Finish an update of a component that learns as its optimizer says; return the
    gradients of its parameters, and leave the parameters as they are."""
    found = {}

    def keep(key, weights, gradient):
        found[key[1].removeprefix("torch.")] = gradient.copy()
        return weights, gradient

    elmo.finish_update(keep)
    return found
