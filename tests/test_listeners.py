"""Downstream components on one shared biLM: gradients, mixes, and everything that
spaCy does with a pipeline."""

import gc
import pickle

import numpy as np
import pytest
import spacy
import torch
from spacy.training import Example

from spacy_elmo.bilm.scalar_mix import ScalarMix
from spacy_elmo.pipeline import Elmo
from spacy_elmo.thinc_layers.listener import ElmoListener

from .models import tiny_config
from .pipelines import (
    LISTENER,
    NER,
    TAGGER,
    add_elmo,
    annotations,
    examples,
    pipeline,
    sizes,
    trained,
)


def listeners(nlp) -> list[ElmoListener]:
    return nlp.get_pipe("elmo").listeners


def mix_of(listener):
    return listener.get_param("W").copy(), listener.get_param("gamma").copy()


def parameters(nlp):
    return [p.detach().clone() for p in nlp.get_pipe("elmo").bilm.parameters()]


def moved(before, nlp) -> bool:
    return any(not torch.equal(a, b) for a, b in zip(before, parameters(nlp)))


# -- gradients --------------------------------------------------------------------


def test_gradients_of_mix_and_bilm_equal_autograd():
    """Two listeners with mixes of their own on one biLM that learns."""
    nlp = spacy.blank("en")
    elmo = add_elmo(nlp, frozen=False)
    rng = np.random.default_rng(0)
    models = [ElmoListener("*", None) for _ in range(2)]
    for model in models:
        model.connect(elmo)
        elmo.listener_map.setdefault("test", []).append(model)
        model.set_param("W", rng.normal(size=3).astype("f4"))
        model.set_param("gamma", rng.normal(size=1).astype("f4"))
    docs = [nlp.make_doc("A cat sat"), nlp.make_doc("가 나"), nlp.make_doc("")]
    weights = [
        [rng.normal(size=(len(d), 12)).astype("f4") for d in docs] for _ in models
    ]

    elmo.update([Example(doc, doc) for doc in docs])
    outputs = []
    for model, dY in zip(models, weights):
        Y, backprop = model.begin_update(docs)
        outputs.append(Y)
        backprop(dY)
    elmo._deferred.run()

    bilm = elmo.bilm
    found = {
        n: p.grad.clone() for n, p in bilm.named_parameters() if p.grad is not None
    }
    bilm.zero_grad()
    loss, mixes = 0.0, []
    for model, dY, Y in zip(models, weights, outputs):
        mix = ScalarMix(3)
        with torch.no_grad():
            mix.weights.copy_(torch.from_numpy(model.get_param("W")))
            mix.gamma.copy_(torch.from_numpy(model.get_param("gamma"))[0])
        mixes.append(mix)
        for doc, d, y in zip(docs, dY, Y):
            if not len(doc):
                continue
            from spacy_elmo.bilm.batch import pack

            batch = pack([[token.text for token in doc]])
            layers = [layer[batch.positions[0]] for layer in bilm(batch)[0]]
            expected = mix(torch.stack(layers))
            assert abs(expected.detach().numpy() - y).max() < 1e-5
            loss = loss + (expected * torch.from_numpy(d)).sum()
    loss.backward()
    for model, mix in zip(models, mixes):
        assert abs(model.get_grad("W") - mix.weights.grad.numpy()).max() < 1e-4
        assert abs(model.get_grad("gamma")[0] - mix.gamma.grad.item()) < 1e-4
    for name, parameter in bilm.named_parameters():
        assert torch.allclose(found[name], parameter.grad, atol=1e-4), name


def test_gradients_are_those_of_one_copy_each_summed_up():
    """A shared biLM learns what two components with copies of it would, together."""
    nlp = pipeline(frozen=False)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    nlp.update(batch, sgd=optimizer)  # a new tagger starts from zeros and gives none

    def gradient(frozen_components):
        for p in nlp.get_pipe("elmo").bilm.parameters():
            p.grad = None
        elmo = nlp.get_pipe("elmo")
        spacy.util.fix_random_seed(0)  # ner cuts its sequences at random
        shared = [Example(eg.x.copy(), eg.y) for eg in batch]
        elmo.update(shared)
        for name in ("tagger", "ner"):
            if name not in frozen_components:
                nlp.get_pipe(name).update(shared)
        elmo._deferred.run()
        return {n: p.grad.clone() for n, p in elmo.bilm.named_parameters()}

    both, tagger, ner = gradient([]), gradient(["ner"]), gradient(["tagger"])
    for name in both:
        assert torch.allclose(both[name], tagger[name] + ner[name], atol=1e-5), name
    assert any(g.abs().max() > 0 for g in tagger.values())
    assert any(g.abs().max() > 0 for g in ner.values())


# -- training ---------------------------------------------------------------------


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
            for _ in range(2):
                nlp.update(batch, sgd=optimizer, exclude=[off])
        assert moved(before, nlp)


def test_one_update_at_a_time_by_hand_as_spacy_train_does():
    nlp = pipeline(frozen=False)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    before = parameters(nlp)
    nlp.update(batch, sgd=False)
    for _, component in nlp.pipeline:
        component.finish_update(optimizer)
    assert moved(before, nlp)  # not a step late


def test_annotating_component_keeps_the_gradient():
    nlp = pipeline(frozen=False)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    before = parameters(nlp)
    nlp.update(batch, sgd=False, annotates=["elmo"])
    nlp.get_pipe("elmo").finish_update(optimizer)
    assert moved(before, nlp)


def test_listed_among_frozen_components():
    """Then its update is never called: listeners must still get layers."""
    nlp = pipeline()
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    optimizer.learn_rate = 0.05
    losses = [nlp.update(batch, sgd=optimizer, exclude=["elmo"]) for _ in range(20)]
    assert losses[-1]["tagger"] < losses[0]["tagger"] / 2


def test_weights_of_this_package_are_never_taken_in_silence():
    """Listed among frozen components, elmo is not initialised with what was named."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.add_pipe("tagger", config=TAGGER)
    batch = [Example.from_dict(nlp.make_doc("a b"), {"tags": ["X", "Y"]})]
    with nlp.select_pipes(disable=["elmo"]), pytest.warns(UserWarning, match="ELW04"):
        nlp.initialize(lambda: batch)


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


def test_late_gradients_belong_to_the_weights_they_were_made_with(monkeypatch):
    """nlp.update finishes elmo before its listeners: the gradient is applied before
    the next forward pass, and nothing changes the weights in between."""
    nlp = trained(frozen=False, steps=2)
    elmo, batch = nlp.get_pipe("elmo"), examples(nlp)
    optimizer = nlp.create_optimizer()
    at_forward = parameters(nlp)
    nlp.update(batch, sgd=optimizer)
    after_first = parameters(nlp)
    seen = []
    real = elmo._deferred.run
    watch = lambda: (seen.append(parameters(nlp)), real())  # noqa: E731
    monkeypatch.setattr(elmo._deferred, "run", watch)
    nlp.update(batch, sgd=optimizer)
    assert all(torch.equal(a, b) for a, b in zip(seen[0], after_first))
    assert moved(after_first, nlp) and at_forward


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
    shim = nlp.get_pipe("elmo").model.layers[0].shims[0]
    monkeypatch.setattr(shim, "begin_update", lambda inputs: pytest.fail("autograd"))
    nlp.update(batch, sgd=optimizer)


def test_nothing_is_held_between_updates_or_after_a_pipe():
    nlp = trained(frozen=False)
    elmo: Elmo = nlp.get_pipe("elmo")
    docs = list(nlp.pipe([text for text in ("A b", "c d e", "f")]))
    assert elmo._store.held_bytes == 0  # every listener has read them
    assert docs[0]._.elmo.layers.shape == (3, 2, 12)  # and still they can be had
    del docs
    elmo._deferred.run()
    gc.collect()
    assert len(elmo._deferred) == 0


def test_layers_waiting_for_listeners_are_bounded():
    nlp = trained()
    expected = [annotations(nlp, "I like Paris now")] * 40
    elmo: Elmo = nlp.get_pipe("elmo")
    elmo._store.max_bytes = 3 * 4 * 12 * 4 * 5  # five of the Docs
    docs = list(elmo.pipe(nlp.make_doc("I like Paris now") for _ in range(40)))
    assert 0 < elmo._store.held_bytes <= elmo._store.max_bytes
    for name in ("tagger", "ner"):
        docs = list(nlp.get_pipe(name).pipe(docs))
    assert [[(t.tag_, t.ent_type_) for t in doc] for doc in docs] == expected


# -- errors -----------------------------------------------------------------------


def test_no_upstream_is_an_error_not_zeros():
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", config=TAGGER)
    batch = [eg for eg in examples(nlp)]
    with pytest.raises(ValueError, match="EL053"):
        nlp.initialize(lambda: batch)


@pytest.mark.parametrize("name", ["other", "elmo"])
def test_upstream_by_name(name):
    nlp = spacy.blank("en")
    add_elmo(nlp, name="elmo")
    config = {"model": {**TAGGER["model"], "tok2vec": {**LISTENER, "upstream": name}}}
    nlp.add_pipe("tagger", config=config)
    batch = [Example.from_dict(nlp.make_doc("a b"), {"tags": ["X", "Y"]})]
    if name == "elmo":
        nlp.initialize(lambda: batch)
    else:
        with pytest.raises(ValueError, match=r"EL053.*other"):
            nlp.initialize(lambda: batch)


# -- what spaCy does with pipelines -----------------------------------------------


def test_saved_with_the_component(tmp_path):
    nlp = trained()
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    for a, b in zip(listeners(nlp), listeners(loaded)):
        for x, y in zip(mix_of(a), mix_of(b)):
            assert np.array_equal(x, y)
    assert annotations(loaded) == annotations(nlp)
    assert annotations(
        spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    )


@pytest.mark.parametrize("frozen", [True, False])
def test_replace_listeners_keeps_the_mix(tmp_path, frozen):
    nlp = trained(frozen=frozen)
    expected, mix = annotations(nlp), mix_of(listeners(nlp)[0])
    doc = nlp.make_doc("I like Paris now")
    scores = nlp.get_pipe("tagger").predict([nlp.get_pipe("elmo")(doc)])
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    assert nlp.get_pipe("elmo").listening_components == ["ner"]
    tok2vec = nlp.get_pipe("tagger").model.get_ref("tok2vec")
    assert all(np.array_equal(x, y) for x, y in zip(mix_of(tok2vec), mix))
    assert annotations(nlp) == expected
    alone = nlp.get_pipe("tagger").predict([nlp.make_doc("I like Paris now")])
    assert all(np.array_equal(a, b) for a, b in zip(alone, scores))
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path, exclude=["elmo", "ner"])
    assert [tag for tag, _ in annotations(loaded)] == [tag for tag, _ in expected]
    batch = examples(nlp)
    before = [p.clone() for p in tok2vec.layers[0].layers[0].shims[0].bilm.parameters()]
    nlp.update(batch, sgd=nlp.create_optimizer())
    after = list(tok2vec.layers[0].layers[0].shims[0].bilm.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after)) is frozen


def test_sourced_from_another_pipeline():
    source = trained()
    expected = annotations(source)
    nlp = spacy.blank("en")
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


def test_removed_upstream_is_an_error():
    nlp = trained()
    nlp.remove_pipe("elmo")
    gc.collect()
    with pytest.raises(ValueError, match="EL053"):
        nlp("I like Paris")


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


def test_trained_on_another_bilm():
    source = trained()
    nlp = spacy.blank("en")
    add_elmo(nlp, sizes=tiny_config(n_layers=3))
    with pytest.raises(ValueError, match="EL060"):
        nlp.add_pipe("tagger", source=source)


def test_the_nearest_of_two_upstreams():
    nlp = spacy.blank("en")
    add_elmo(nlp, name="first")
    second = add_elmo(nlp, name="second", sizes=tiny_config(projection_dim=8))
    nlp.add_pipe("tagger", config=TAGGER)
    assert nlp.get_pipe("first").listeners == []
    (listener,) = second.listeners
    assert listener.upstream is second and listener.get_dim("nO") == 16


def test_tok2vec_without_weights(tmp_path):
    """Named by hand in a configuration, or put in place before elmo was used."""
    nlp = spacy.blank("en")
    tok2vec = {"@architectures": "spacy-elmo.Tok2Vec.v1", "bilm": sizes(tiny_config())}
    nlp.add_pipe("tagger", config={"model": {**TAGGER["model"], "tok2vec": tok2vec}})
    batch = [Example.from_dict(nlp.make_doc("a b"), {"tags": ["X", "Y"]})]
    with pytest.raises(ValueError, match="EL050"):
        nlp.initialize(lambda: batch)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.add_pipe("tagger", config=TAGGER)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    nlp.initialize(lambda: batch)
    assert nlp("a b")[0].tag_


@pytest.mark.parametrize("method", ["fork", "spawn"])
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


def test_parameter_averages_reach_the_bilm():
    from thinc.api import Adam

    nlp = pipeline(frozen=False)
    batch = examples(nlp)
    nlp.initialize(lambda: batch)
    optimizer = Adam(0.01, use_averages=True)
    for _ in range(5):
        nlp.update(batch, sgd=optimizer)
    now = parameters(nlp)
    with nlp.use_params(optimizer.averages):
        assert moved(now, nlp)
        first = next(iter(nlp.get_pipe("elmo").bilm.named_parameters()))
        key = nlp.get_pipe("elmo").model.layers[0].shims[0]._key(first[0])
        assert np.allclose(first[1].detach().numpy(), optimizer.averages[key])
    assert not moved(now, nlp)


def test_copies_have_optimizer_state_of_their_own():
    nlp = trained(frozen=False)
    model = nlp.get_pipe("elmo").model
    copied = model.copy()
    a, b = model.layers[0].shims[0], copied.layers[0].shims[0]
    assert a.id != b.id
    assert all(
        torch.equal(x, y) for x, y in zip(a.bilm.parameters(), b.bilm.parameters())
    )
    assert all(
        x.data_ptr() != y.data_ptr()
        for x, y in zip(a.bilm.parameters(), b.bilm.parameters())
    )


def test_parameters_stay_the_same_tensors():
    nlp = pipeline(frozen=False)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    where = [p.data_ptr() for p in nlp.get_pipe("elmo").bilm.parameters()]
    for _ in range(2):
        nlp.update(batch, sgd=optimizer)
    assert where == [p.data_ptr() for p in nlp.get_pipe("elmo").bilm.parameters()]


def test_listener_copies_stay_listeners():
    nlp = trained()
    copied = nlp.get_pipe("tagger").model.copy()
    (listener,) = [node for node in copied.walk() if isinstance(node, ElmoListener)]
    assert listener.upstream is nlp.get_pipe("elmo")
    assert np.array_equal(listener.get_param("W"), listeners(nlp)[0].get_param("W"))


EMBED = {
    "@architectures": "spacy-elmo.Embed.v1",
    "width": 10,
    "embed": {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": 8,
        "attrs": ["NORM"],
        "rows": [50],
        "include_static_vectors": False,
    },
    "elmo": LISTENER,
}
ENCODE = {
    "@architectures": "spacy.MaxoutWindowEncoder.v2",
    "width": 10,
    "depth": 1,
    "window_size": 1,
    "maxout_pieces": 2,
}
TOK2VEC = {"@architectures": "spacy.Tok2Vec.v2", "embed": EMBED, "encode": ENCODE}


def test_beside_the_components_own_embeddings(tmp_path):
    """[x_k; ELMo_k] under an encoder: trained, saved, and with a biLM of its own."""
    nlp = spacy.blank("en")
    add_elmo(nlp, frozen=False)
    nlp.add_pipe("ner", config={"model": {**NER["model"], "tok2vec": TOK2VEC}})
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    before = parameters(nlp)
    losses = [nlp.update(batch, sgd=optimizer)["ner"] for _ in range(20)]
    assert losses[-1] < losses[0] and moved(before, nlp)
    (listener,) = listeners(nlp)
    assert not np.allclose(listener.get_param("W"), 0)
    nlp.to_disk(tmp_path / "a")
    expected = annotations(nlp)
    assert annotations(spacy.load(tmp_path / "a")) == expected
    nlp.replace_listeners("elmo", "ner", ["model.tok2vec.embed.elmo"])
    assert annotations(nlp) == expected
    nlp.to_disk(tmp_path / "b")
    assert annotations(spacy.load(tmp_path / "b", exclude=["elmo"])) == expected
