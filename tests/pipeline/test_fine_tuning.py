"""`frozen = false`: the biLM learns at a part of the rate, a layer at a time."""

import copy
import io
import pickle
import warnings

import numpy as np
import pytest
import spacy
import torch
from confection import Config
from spacy.tokens import DocBin
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import fix_random_seed, registry
from thinc.api import SGD, Adam, RAdam

from spacy_elmo import BiLM
from spacy_elmo.bilm.encode import pack
from spacy_elmo.pipeline import make_config
from spacy_elmo.pipeline.encoder import LayerBatch, shim_of
from spacy_elmo.pipeline.fine_tuning import FineTuning, ForwardPass

from ..models import tiny_config
from ..pipelines import add_elmo, examples, listeners, pipeline, trained

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


def unfreezing(*steps, name="elmo"):
    """Return the callback of a configuration."""
    block = {"@callbacks": "spacy-elmo.Unfreeze.v1", "steps": list(steps), "name": name}
    return registry.resolve({"before_update": block})["before_update"]


def test_layers_learn_one_after_the_other_from_the_top():
    nlp = pipeline(frozen=False, learn_rate_factor=1.0)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    elmo, before_update = nlp.get_pipe("elmo"), unfreezing(2, 4)
    learning = []
    for step in range(7):
        before_update(nlp, {"step": step, "epoch": step})
        before = weights_of(elmo)
        nlp.update(batch, sgd=optimizer)
        after = weights_of(elmo)
        learning.append([part for part in PARTS if changed(before, after, part)])
    # An output layer of zeros, as they begin with, lets no gradient through.
    assert learning[0] in ([], [2])
    assert learning[1:] == [[2], [1, 2], [1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    ("steps", "learning"), [([], [2]), ([1], [1, 2]), ([1, 1, 1, 1], [0, 1, 2])]
)
def test_layers_that_no_step_names_stay_as_they_are(steps, learning):
    nlp = pipeline(frozen=False, learn_rate_factor=1.0)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    elmo, before_update = nlp.get_pipe("elmo"), unfreezing(*steps)
    before = weights_of(elmo)
    for step in range(4):
        before_update(nlp, {"step": step, "epoch": step})
        nlp.update(batch, sgd=optimizer)
    after = weights_of(elmo)
    assert [part for part in PARTS if changed(before, after, part)] == learning


def test_wrong_unfreezing():
    nlp = pipeline(frozen=False)
    with pytest.raises(ValueError, match=r"EL143.*'tagger'.*Unfreeze"):
        unfreezing(1, name="tagger")(nlp, {"step": 0, "epoch": 0})
    with pytest.raises(ValueError, match=r"EL026.*n_layers.*0"):
        nlp.get_pipe("elmo").unfreeze(0)


@pytest.mark.parametrize(
    ("max_steps", "learning"), [(1, [2]), (2, [1, 2]), (3, [0, 1, 2])]
)
def test_a_configuration_unfreezes_layers_in_spacy_train(max_steps, learning, tmp_path):
    """Which makes one update more than max_steps, the first one being step 0."""
    BiLM.random(tiny_config(), seed=1).save(tmp_path / "bilm")
    docs = [each.reference for each in examples(spacy.blank("xx"))]
    DocBin(docs=docs).to_disk(tmp_path / "docs.spacy")
    text = make_config(["tagger"], weights=str(tmp_path / "bilm"), frozen=False)
    assert Config().from_str(text)["training"]["before_update"]["steps"] == [200, 400]
    corpus = str(tmp_path / "docs.spacy")
    overrides = {
        "paths": {"train": corpus, "dev": corpus},
        "training": {"max_steps": max_steps, "before_update": {"steps": [2, 3]}},
        "components": {"elmo": {"learn_rate_factor": 1.0}},
    }
    nlp = init_nlp(Config().from_str(text, interpolate=False).merge(overrides))
    before = weights_of(nlp.get_pipe("elmo"))
    train(nlp, stdout=io.StringIO())
    after = weights_of(nlp.get_pipe("elmo"))
    assert [part for part in PARTS if changed(before, after, part)] == learning


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_no_gradient_is_computed_that_nothing_learns_from(n_layers):
    nlp = pipeline(frozen=False)
    batch = examples(nlp)
    nlp.initialize(lambda: batch)
    elmo = nlp.get_pipe("elmo")
    elmo.unfreeze(n_layers)
    elmo.update(batch)
    layers, backprop = elmo.model.begin_update([each.predicted for each in batch])
    layers.values[:] = 1
    backprop(layers)
    found = {n for n, p in elmo.bilm.named_parameters() if p.grad is not None}
    learning = [part for part in PARTS if any(PARTS[part] in name for name in found)]
    assert learning == [0, 1, 2][3 - n_layers :]


def as_one(weights):
    return torch.cat([weights[name].detach().flatten() for name in sorted(weights)])


RATES = [0.0, 0.01, 0.02, 0.005]
FORMS = {
    "default": ({}, [0.075 * rate for rate in RATES]),
    "factor": ({"learn_rate_factor": 0.5}, [0.0, 0.005, 0.01, 0.0025]),
    # Of version 0.2: its highest rate, which falls as the optimizer's does.
    "old": ({"learn_rate": 0.002, "unfreeze_every": 0}, [0.002, 0.002, 0.002, 0.0005]),
    "old null": ({"learn_rate": None, "unfreeze_every": 0}, RATES),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore:.*ELW71")
def test_updates_are_those_of_adam_at_the_rate_of_the_settings(form):
    """The gradient of the layers is given; autograd and PyTorch's Adam do the rest."""
    settings, rates = FORMS[form]
    nlp = spacy.blank("xx")
    elmo = add_elmo(nlp, frozen=False, **settings)
    expected, first = copy.deepcopy(elmo.bilm), as_one(weights_of(elmo))
    adam = torch.optim.Adam(expected.parameters())
    optimizer = Adam(1.0, L2=0.0, grad_clip=0.0, use_averages=False)
    doc, rng = nlp.make_doc("She hates Paris now"), np.random.default_rng(0)
    batch = pack([[token.text for token in doc]])
    for step, (rate, expected_rate) in enumerate(zip(RATES, rates, strict=True), 1):
        gradient = rng.normal(size=(3, len(doc), 12), scale=0.01).astype("f4")
        optimizer.learn_rate = rate
        elmo.update([Example(doc, doc)])
        elmo.add_gradient([doc], lambda g=gradient: LayerBatch(g, [g.shape[1]]))
        elmo.finish_update(optimizer)
        assert optimizer.learn_rate == rate

        adam.zero_grad()
        layers = [layer[batch.positions[0]] for layer in expected(batch)[0]]
        (torch.stack(layers) * torch.from_numpy(gradient)).sum().backward()
        # Thinc adds eps to what is not corrected for its bias yet.
        eps = 1e-8 / (1 - 0.999**step) ** 0.5
        adam.param_groups[0].update(lr=expected_rate, eps=eps)
        adam.step()
    # Adam makes whole steps of gradients that are nothing but rounding.
    found, wanted = map(as_one, (weights_of(elmo), dict(expected.named_parameters())))
    assert (found - wanted).norm() < 0.02 * (wanted - first).norm()


@pytest.mark.parametrize("kind", [Adam, RAdam, SGD])
def test_half_of_a_rate_is_the_rate_of_half(kind):
    """With any optimizer, whose weight decay is in proportion to its rate, too."""

    def learned(factor, rate):
        fix_random_seed(0)
        nlp = pipeline(frozen=False, learn_rate_factor=factor)
        batch = examples(nlp)
        nlp.initialize(lambda: batch)
        optimizer = kind(0.01)
        for _ in range(3):
            nlp.update(batch, sgd=False)
            for name in nlp.pipe_names:
                optimizer.learn_rate = rate if name == "elmo" else 0.01
                nlp.get_pipe(name).finish_update(optimizer)
        return weights_of(nlp.get_pipe("elmo"))

    found, expected = learned(0.5, 0.01), learned(1.0, 0.005)
    whole = learned(1.0, 0.01)
    assert all(torch.equal(found[name], expected[name]) for name in found)
    assert not all(torch.equal(found[name], whole[name]) for name in found)


def test_settings_of_version_0_2_unfreeze_a_layer_after_so_many_updates():
    """Parts of a batch are one update; a new initialisation begins from the top."""
    nlp = pipeline(frozen=False, learn_rate=None, unfreeze_every=2)
    batch = examples(nlp)
    elmo = nlp.get_pipe("elmo")
    for _ in range(2):
        optimizer = nlp.initialize(lambda: batch)
        learning = []
        for update in range(4):
            before = weights_of(elmo)
            for part in (batch[:1], batch[1:2], batch[2:]):
                nlp.update(part, sgd=False)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                elmo.finish_update(optimizer)
            found = [str(each.message) for each in said]
            assert len(found) == (update == 0)
            assert all("ELW71" in each and "Unfreeze" in each for each in found)
            for name in ("tagger", "ner"):
                nlp.get_pipe(name).finish_update(optimizer)
            after = weights_of(elmo)
            learning.append([part for part in PARTS if changed(before, after, part)])
        # An output layer of zeros, as they begin with, lets no gradient through.
        assert learning[0] in ([], [2])
        assert learning[1:] == [[2], [1, 2], [1, 2]]


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

    def change(**settings):
        nlp = pipeline(frozen=False, **settings)
        batch = examples(nlp)
        optimizer, before_update = nlp.initialize(lambda: batch), unfreezing(200, 400)
        bilm = nlp.get_pipe("elmo").bilm
        unseen = [["Nobody", "has", "read", "this", "before"]]
        *below, before = bilm.encode(unseen)[0]
        losses = []
        # As training configurations have it.
        for step, rate in enumerate(np.linspace(0.004, 0, 100)):
            optimizer.learn_rate = rate
            before_update(nlp, {"step": step, "epoch": step})
            losses.append(nlp.update(batch, sgd=optimizer)["tagger"])
        assert losses[-1] < losses[0]
        *below_now, now = bilm.encode(unseen)[0]
        assert np.array_equal(below_now, below)
        return float(np.linalg.norm(now - before) / np.linalg.norm(before))

    assert 0 < change() < 0.5
    assert change(learn_rate_factor=2.5) > 1


@pytest.mark.parametrize("saved", [False, True])
def test_what_replaces_listeners_learns_in_all_layers_at_the_same_rate(saved):
    nlp = pipeline(frozen=False, learn_rate_factor=0.01)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    nlp.get_pipe("elmo").unfreeze(1)
    nlp.update(batch, sgd=optimizer)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    if saved:
        again = spacy.util.load_model_from_config(nlp.config)
        nlp = again.from_bytes(nlp.to_bytes())
    own = nlp.get_pipe("tagger").model.get_ref("tok2vec").layers[0]
    before = {k: v.clone() for k, v in shim_of(own).bilm.state_dict().items()}
    optimizer = Adam(0.001, L2=0.0, use_averages=False)
    for _ in range(3):
        nlp.update(batch, sgd=optimizer)
    after = shim_of(own).bilm.state_dict()
    steps = {name: float((after[name] - before[name]).abs().max()) for name in before}
    assert any(steps[name] for name in before if "token" in name)
    assert 0.7e-5 < max(steps.values()) < 3.5e-5  # three steps of Adam


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
    nlp = trained(3, frozen=False, learn_rate_factor=1.0)
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
    nlp = pipeline(frozen=False, learn_rate_factor=1.0)
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


def test_the_gradient_of_a_whole_batch_is_held_once():
    """Others are added to it, each in the places of its Docs."""
    nlp, found = spacy.blank("xx"), []
    docs = [nlp.make_doc(text) for text in ("a b", "c", "d e f")]
    tuning = FineTuning(add_elmo(nlp).model, 1.0)

    def add(number, order):
        some = [docs[d] for d in order]
        values = np.full((3, sum(map(len, some)), 12), number, dtype="float32")
        tuning.add(some, lambda: LayerBatch(values, list(map(len, some))))
        return values

    tuning.expect(ForwardPass(docs, [2, 1, 3], found.append))
    first = add(1, [0, 1, 2])
    add(10, [2, 0])
    add(100, [0, 1, 2])
    tuning.complete()
    assert found[0].values is first
    assert first[0, :, 0].tolist() == [111, 111, 101, 111, 111, 111]
    tuning.expect(ForwardPass(docs, [2, 1, 3], found.append))
    add(1, [2, 0])
    add(10, [0, 1, 2])
    tuning.complete()
    assert found[1].values[0, :, 0].tolist() == [11, 11, 10, 11, 11, 11]


def test_gradients_of_other_docs_are_not_dropped_in_silence():
    """entity_linker makes Docs of the sentences around entities."""
    nlp = pipeline(frozen=False)
    batch = examples(nlp)
    nlp.initialize(lambda: batch)
    nlp.get_pipe("elmo").update(batch)
    listener = listeners(nlp)[0]
    vectors, backprop = listener([each.predicted[:2].as_doc() for each in batch], True)
    with pytest.warns(UserWarning, match="ELW27"):
        backprop(vectors)


def test_rehearsing_is_named_where_nothing_is_learned_from_it():
    nlp = pipeline(frozen=False)
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
    nlp = pipeline(frozen=False, learn_rate_factor=1.0)
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


def test_a_learning_rate_that_is_too_high_is_named():
    nlp = pipeline(frozen=False, learn_rate_factor=1e30)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    nlp.update(batch, sgd=optimizer)
    with pytest.raises(ValueError, match=r"EL078.*lower its learning rate"):
        nlp.update(batch, sgd=optimizer)
