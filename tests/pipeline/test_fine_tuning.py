"""`frozen = false`: the biLM learns at its own rate, a layer at a time."""

import copy
import pickle

import numpy as np
import pytest
import torch

from spacy_elmo.pipeline.encoder import shim_of
from spacy_elmo.pipeline.factory import DEFAULT_CONFIG

from ..pipelines import examples, listeners, pipeline, trained

PARTS = {0: "token_encoder", 1: "lstm.layers.0", 2: "lstm.layers.1"}


def weights_of(elmo):
    """Return the weights as they are: `elmo.bilm` would complete an update before."""
    bilm = shim_of(elmo.model).bilm
    return {name: p.detach().clone() for name, p in bilm.named_parameters()}


def changed(before, after, part):
    moved = [
        not np.array_equal(before[n], after[n]) for n in before if PARTS[part] in n
    ]
    assert moved
    return any(moved)


def test_layers_learn_one_after_the_other_from_the_top():
    nlp = pipeline(frozen=False, learn_rate=None, unfreeze_every=2)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    elmo = nlp.get_pipe("elmo")
    learning = []
    for _ in range(7):
        before = weights_of(elmo)
        nlp.update(batch, sgd=optimizer)
        after = weights_of(elmo)
        learning.append([part for part in PARTS if changed(before, after, part)])
    # An output layer of zeros, as they begin with, lets no gradient through.
    assert learning[0] in ([], [2])
    assert learning[1:] == [[2], [1, 2], [1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("n_updates", [0, 2, 4])
def test_no_gradient_is_computed_that_nothing_learns_from(n_updates):
    nlp = pipeline(frozen=False, learn_rate=None, unfreeze_every=2)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    for _ in range(n_updates):
        nlp.update(batch, sgd=optimizer)
    elmo = nlp.get_pipe("elmo")
    elmo.update(batch)
    layers, backprop = elmo.model.begin_update([each.predicted for each in batch])
    layers.values[:] = 1
    backprop(layers)
    found = {n for n, p in elmo.bilm.named_parameters() if p.grad is not None}
    learning = [part for part in PARTS if any(PARTS[part] in name for name in found)]
    assert learning == [0, 1, 2][2 - n_updates // 2 :]


def test_updates_are_counted_where_gradients_are_accumulated():
    """Parts of a batch are one update; a new initialisation begins from the top."""
    nlp = pipeline(frozen=False, learn_rate=None, unfreeze_every=2)
    batch = examples(nlp)
    elmo = nlp.get_pipe("elmo")
    for _ in range(2):
        optimizer = nlp.initialize(lambda: batch)
        learning = []
        for _ in range(4):
            before = weights_of(elmo)
            for part in (batch[:1], batch[1:2], batch[2:]):
                nlp.update(part, sgd=False)
            for name in ("elmo", "tagger", "ner"):
                nlp.get_pipe(name).finish_update(optimizer)
            after = weights_of(elmo)
            learning.append([part for part in PARTS if changed(before, after, part)])
        # An output layer of zeros, as they begin with, lets no gradient through.
        assert learning[0] in ([], [2])
        assert learning[1:] == [[2], [1, 2], [1, 2]]


@pytest.mark.parametrize("rate", [1e-5, 1e-2])
def test_own_learning_rate(rate):
    nlp = pipeline(frozen=False, learn_rate=rate)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    elmo = nlp.get_pipe("elmo")
    before = weights_of(elmo)
    for _ in range(3):
        nlp.update(batch, sgd=optimizer)
    after = weights_of(elmo)
    steps = max(float(abs(after[n] - before[n]).max()) for n in before)
    # Adam's first step that has a gradient is as long as its rate, or 0.744 of it after
    # one without (output layers begin with zeros).
    assert 0.7 * rate < steps < 3.5 * rate
    assert optimizer.learn_rate == 0.001


def test_own_learning_rate_falls_as_the_optimizer_s_does():
    nlp = pipeline(frozen=False, learn_rate=1e-2, unfreeze_every=0)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    elmo = nlp.get_pipe("elmo")

    def step(rate):
        """Return how far the weights move in an update at a rate of the optimizer."""
        optimizer.learn_rate = rate
        before = weights_of(elmo)
        nlp.update(batch, sgd=False)
        for name in nlp.pipe_names:
            nlp.get_pipe(name).finish_update(optimizer)
        after = weights_of(elmo)
        return max(float(abs(after[n] - before[n]).max()) for n in before)

    rising = [step(rate) for rate in (0.0, 0.001, 0.002, 0.004)]
    assert all(0.005 < moved < 0.035 for moved in rising[2:])
    assert 0.0005 < step(0.0004) < 0.0035
    assert step(0.0) == 0


def test_dropout_is_on_the_inputs_of_lstm_layers_while_they_learn():
    nlp = pipeline(frozen=False)
    batch = examples(nlp)
    nlp.initialize(lambda: batch)
    elmo, docs = nlp.get_pipe("elmo"), [each.predicted for each in batch]

    def layers_in_update(drop):
        """Return the layers that listeners read in an update."""
        elmo.update(batch, drop=drop)
        return np.concatenate([elmo.layers_of(doc) for doc in docs], axis=1)

    whole = layers_in_update(0.0)
    torch.manual_seed(0)
    first = layers_in_update(0.5)
    torch.manual_seed(0)
    assert np.array_equal(layers_in_update(0.5), first)
    assert not np.array_equal(layers_in_update(0.5), first)
    assert np.array_equal(first[0], whole[0])  # the token layer
    assert np.abs(first[1:] - whole[1:]).max() > 0.1
    # They are whole again where nothing learns.
    assert np.allclose(whole, elmo.model.predict(docs).values, atol=1e-6)
    elmo.frozen = True
    assert np.allclose(whole, layers_in_update(0.5), atol=1e-6)


@pytest.mark.slow
def test_default_settings_are_stable():
    """After hundred updates the biLM's top layer reads other sentences much as it did,
    the others just as they did; with a rate that is usual for a task it would not."""

    defaults = {k: v for k, v in DEFAULT_CONFIG.items() if k != "model"}

    def change(**settings):
        nlp = pipeline(**{**defaults, "frozen": False, **settings})
        batch = examples(nlp)
        optimizer = nlp.initialize(lambda: batch)
        bilm = nlp.get_pipe("elmo").bilm
        unseen = [["Nobody", "has", "read", "this", "before"]]
        *below, before = bilm.encode(unseen)[0]
        losses = []
        for rate in np.linspace(0.001, 0, 100):  # as training configurations have it
            optimizer.learn_rate = rate
            losses.append(nlp.update(batch, sgd=optimizer)["tagger"])
        assert losses[-1] < losses[0]
        *below_now, now = bilm.encode(unseen)[0]
        assert np.array_equal(below_now, below)
        return float(np.linalg.norm(now - before) / np.linalg.norm(before))

    assert 0 < change() < 0.5
    assert change(learn_rate=0.01) > 1


def test_what_replaces_listeners_learns_in_all_layers():
    nlp = pipeline(frozen=False, unfreeze_every=100)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    nlp.update(batch, sgd=optimizer)
    with pytest.warns(UserWarning, match="ELW02"):
        nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    own = nlp.get_pipe("tagger").model.get_ref("tok2vec").layers[0]
    before = {k: v.clone() for k, v in shim_of(own).bilm.state_dict().items()}
    for _ in range(3):
        nlp.update(batch, sgd=optimizer)
    after = shim_of(own).bilm.state_dict()
    assert any(
        not before[name].equal(after[name]) for name in before if "token" in name
    )


def replaced(nlp):
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    tok2vec = nlp.get_pipe("tagger").model.get_ref("tok2vec")
    return shim_of(tok2vec.layers[0]).bilm


WAYS = {
    "pickled": lambda nlp: pickle.loads(pickle.dumps(nlp)).get_pipe("elmo").bilm,
    "copied": lambda nlp: copy.deepcopy(nlp).get_pipe("elmo").bilm,
    "replaced": replaced,
}


@pytest.mark.parametrize("how", WAYS)
def test_the_last_update_goes_along(how):
    nlp = trained(3, frozen=False, learn_rate=None)
    # Without the last component, whose update would say that all is over.
    nlp.update(examples(nlp), sgd=nlp.create_optimizer(), exclude=["ner"])
    before = weights_of(nlp.get_pipe("elmo"))
    found = WAYS[how](nlp).state_dict()
    after = nlp.get_pipe("elmo").bilm.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert all(torch.equal(found[name], after[name]) for name in before)


@pytest.mark.parametrize("how", ["saved", "saved with averages before", "frozen"])
def test_the_last_update_is_not_lost(how):
    """`nlp.update(sgd=...)` finishes elmo before its listeners have added anything, and
    nothing says that they have if the last of them is left out."""
    nlp = pipeline(frozen=False, learn_rate=None, unfreeze_every=0)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    nlp.update(batch, sgd=optimizer)
    nlp.update(batch, sgd=optimizer, exclude=["ner"])
    elmo = nlp.get_pipe("elmo")
    before = weights_of(elmo)
    if how == "saved with averages before":
        shim = shim_of(elmo.model)
        averages = {shim.key(n): 0 * p.numpy() for n, p in before.items()}
        with nlp.use_params(averages):
            nlp.to_bytes()
            assert not any(p.any() for p in weights_of(elmo).values())
    if how == "frozen":
        elmo.frozen = True
        elmo.frozen = False
    else:
        nlp.to_bytes()
    found = weights_of(elmo)
    assert all(changed(before, found, part) for part in PARTS)
    elmo.update(batch)  # which would complete it
    after = weights_of(elmo)
    assert not any(changed(found, after, part) for part in PARTS)


def test_gradients_of_other_docs_are_not_dropped_in_silence():
    """entity_linker makes Docs of the sentences around entities."""
    nlp = pipeline(frozen=False, unfreeze_every=0)
    batch = examples(nlp)
    nlp.initialize(lambda: batch)
    nlp.get_pipe("elmo").update(batch)
    listener = listeners(nlp)[0]
    vectors, backprop = listener([each.predicted[:2].as_doc() for each in batch], True)
    with pytest.warns(UserWarning, match="ELW27"):
        backprop(vectors)


def test_rehearsing_is_named_where_nothing_is_learned_from_it():
    nlp = pipeline(frozen=False, unfreeze_every=0)
    batch = examples(nlp)
    nlp.initialize(lambda: batch)
    nlp.update(batch, sgd=nlp.create_optimizer())
    optimizer = nlp.resume_training()
    nlp.get_pipe("elmo").update(batch)
    with pytest.warns(UserWarning, match=r"ELW27.*nlp\.rehearse"):
        nlp.rehearse(examples(nlp), sgd=optimizer)


def learned_of_ones(change):
    """Return the weights after the gradient of every vector was one. A function changes
    the tokens of the first Doc, whose gradient is zero otherwise."""
    nlp = pipeline(frozen=False, learn_rate=None, unfreeze_every=0)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    elmo, docs = nlp.get_pipe("elmo"), [each.predicted for each in batch]
    elmo.update(batch)
    if change is not None:
        with docs[0].retokenize() as tokens:
            change(tokens, docs[0])
    vectors, backprop = listeners(nlp)[0](docs, True)
    gradient = [np.ones_like(each) for each in vectors]
    if change is None:
        gradient[0][:] = 0
        backprop(gradient)
    else:
        with pytest.warns(UserWarning, match="ELW27"):
            backprop(gradient)
    before = weights_of(elmo)
    elmo.finish_update(optimizer)
    assert changed(before, weights_of(elmo), 1)
    return weights_of(elmo)


@pytest.mark.parametrize("how", ["merged", "split"])
def test_gradients_of_other_tokens_are_not_those_of_the_doc(how):
    """A component between elmo and a listener can merge and split tokens."""

    def change(tokens, doc):
        if how == "merged":
            tokens.merge(doc[:2])
        else:
            tokens.split(doc[2], ["Lon", "don"], heads=[(doc[2], 1), doc[1]])

    found, expected = learned_of_ones(change), learned_of_ones(None)
    for name, values in expected.items():
        assert torch.equal(found[name], values), name
