"""Which `elmo` a listener hears: by name, the nearest, none, one that does not fit."""

import gc
import pickle
import warnings

import numpy as np
import pytest
import spacy
from spacy.kb import InMemoryLookupKB
from spacy.training import Example

from spacy_elmo import similarity
from spacy_elmo.bilm import BiLM

from ..models import tiny_config
from ..pipelines import (
    LISTENER,
    TAGGER,
    add_elmo,
    examples,
    sizes,
    trained,
    with_weights,
)


def test_no_upstream_is_an_error_not_zeros():
    nlp = spacy.blank("xx")
    nlp.add_pipe("tagger", config=TAGGER)
    batch = list(examples(nlp))
    with pytest.raises(ValueError, match="EL053"):
        nlp.initialize(lambda: batch)


@pytest.mark.parametrize("name", ["other", "elmo"])
def test_upstream_by_name(name):
    nlp = spacy.blank("xx")
    add_elmo(nlp, name="elmo")
    config = {"model": {**TAGGER["model"], "tok2vec": {**LISTENER, "upstream": name}}}
    nlp.add_pipe("tagger", config=config)
    batch = [Example.from_dict(nlp.make_doc("a b"), {"tags": ["X", "Y"]})]
    if name == "elmo":
        nlp.initialize(lambda: batch)
    else:
        with pytest.raises(ValueError, match=r"EL053.*other"):
            nlp.initialize(lambda: batch)


def test_removed_upstream_is_an_error_at_once():
    nlp = trained()
    nlp("I like Paris")
    gc.disable()  # it is not left to the garbage collector
    try:
        nlp.remove_pipe("elmo")
        with pytest.raises(ValueError, match="EL053"):
            nlp("I like Paris")
    finally:
        gc.enable()


def listened_to_by(elmo):
    return [name for name, models in elmo.listener_map.items() for _ in models]


def test_mix_on_the_weights_it_was_trained_with(tmp_path):
    """Trained, saved, sourced, fine-tuned and saved again: nothing to warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp = trained(frozen=False)
        for _ in range(2):
            nlp.to_disk(tmp_path)
            nlp = spacy.load(tmp_path)
            other = spacy.blank("xx")
            add_elmo(other)
            with_weights(other.get_pipe("elmo"), nlp.get_pipe("elmo").bilm)
            other.add_pipe("tagger", source=spacy.load(tmp_path))
            batch = examples(nlp)
            nlp.update(batch, sgd=nlp.create_optimizer())
            nlp.add_pipe("sentencizer")
            nlp.remove_pipe("sentencizer")


def test_mix_on_other_weights_of_the_same_sizes_warns(tmp_path):
    """Whether its own biLM is still there, or was saved with it long ago."""
    source = trained()
    source.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    tagger = loaded.get_pipe("tagger")
    loaded.remove_pipe("elmo")
    for nlp in (source, loaded):
        other = spacy.blank("xx")
        elmo = add_elmo(other, seed=2)
        with pytest.warns(UserWarning, match=r"ELW20.*'elmo'"):
            other.add_pipe("tagger", source=nlp)
        assert elmo.listening_components == ["tagger"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            other.add_pipe("sentencizer")  # it is said once
    assert other.get_pipe("tagger") is tagger
    other.to_disk(tmp_path / "other")  # which makes the weights no better
    with pytest.warns(UserWarning, match="ELW20"):
        spacy.load(tmp_path / "other")


HASHES = {
    "@architectures": "spacy.HashEmbedCNN.v2",
    "pretrained_vectors": None,
    "width": 8,
    "depth": 1,
    "embed_size": 50,
    "window_size": 1,
    "maxout_pieces": 2,
    "subword_features": True,
}


def add_stock(nlp, order, **settings):
    """A stock tok2vec, a tagger that listens to it, and elmo, in an order."""
    for name in order:
        if name == "elmo":
            add_elmo(nlp, **settings)
        elif name == "tok2vec":
            nlp.add_pipe("tok2vec", config={"model": HASHES})
        else:
            listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 8}
            model = {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}
            nlp.add_pipe("tagger", config={"model": model})


def test_stock_tok2vec_whose_tensor_is_read_later(tmp_path):
    """spaCy's listeners read it at prediction, so elmo leaves it as it is."""
    nlp = spacy.blank("xx")
    add_stock(nlp, ["tok2vec", "tagger"])
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    for _ in range(3):
        nlp.update(batch, sgd=optimizer)
    expected = nlp("I like London")
    nlp.add_pipe("sentencizer", first=True)
    with pytest.warns(UserWarning, match=r"ELW22.*'tagger' listens.*'elmo' leaves"):
        add_elmo_after(nlp, "tok2vec")

    def check(nlp):
        doc = nlp("I like London")
        assert [t.tag_ for t in doc] == [t.tag_ for t in expected]
        assert np.array_equal(doc.tensor, expected.tensor)
        assert doc._.elmo.layers.shape == (3, 3, 12)
        alone = spacy.blank("xx")
        add_elmo(alone)
        pair, found = alone("I like London"), similarity(doc[0], doc[1])
        assert found == pytest.approx(similarity(pair[0], pair[1]), abs=1e-6)

    check(nlp)
    nlp.to_disk(tmp_path)
    with pytest.warns(UserWarning, match="ELW22"):
        loaded = spacy.load(tmp_path)
    check(pickle.loads(pickle.dumps(loaded)))  # spaCy's tok2vec, until it is trained
    check(loaded)
    nlp.update(batch, sgd=optimizer)
    nlp.remove_pipe("tagger")
    assert nlp("I like London").tensor.shape == (3, 12)  # nothing reads it any more


def test_order_in_which_a_pipeline_is_built_does_not_matter():
    nlp = spacy.blank("xx")
    with pytest.warns(UserWarning, match=r"ELW22.*'tagger' listens.*'elmo'"):
        add_stock(nlp, ["tok2vec", "elmo", "tagger"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp.add_pipe("sentencizer")  # it is said once
        apart = spacy.blank("xx")
        add_stock(apart, ["tok2vec", "elmo", "tagger"], set_tensor=False)
    batch = examples(apart)
    apart.initialize(lambda: batch)
    doc = apart("I like London")
    assert doc.tensor.shape == (3, 8) and doc[0].tag_
    assert doc._.elmo.layers.shape == (3, 3, 12)


def add_elmo_after(nlp, name):
    model = {**sizes(tiny_config())}
    elmo = nlp.add_pipe("elmo", after=name, config={"model": model})
    with_weights(elmo, BiLM.random(tiny_config(), seed=1))


def test_stock_tok2vec_that_overwrites_the_tensor():
    nlp = spacy.blank("xx")
    with pytest.warns(UserWarning, match=r"ELW21.*'tok2vec' stands after 'elmo'"):
        add_stock(nlp, ["elmo", "tok2vec", "tagger"])
    batch = examples(nlp)
    nlp.initialize(lambda: batch)
    assert nlp("I like London")[0].tag_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        add_stock(spacy.blank("xx"), ["elmo", "tok2vec", "tagger"], set_tensor=False)
        add_stock(spacy.blank("xx"), ["tok2vec", "tagger", "elmo"])


def test_not_initialised_pipelines_are_taken_apart(tmp_path):
    """With sizes of one's own, for which nothing ships."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("elmo", config={"model": sizes(tiny_config())})
    nlp.add_pipe("tagger", config=TAGGER)
    docs = [nlp.make_doc("a b")]
    ops = nlp.get_pipe("tagger").model.ops
    nlp.get_pipe("tagger").model.initialize(X=docs, Y=[ops.alloc2f(2, 4)])
    nlp.get_pipe("elmo").model.initialize(X=docs)
    with pytest.raises(ValueError, match="EL050"):
        nlp.get_pipe("tagger").model.predict(docs)
    with pytest.raises(ValueError, match="EL050"):
        nlp.get_pipe("elmo").model.predict(docs)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    with pytest.raises(ValueError, match="EL095"):
        nlp.get_pipe("tagger").model.predict(docs)
    source = trained()
    source.remove_pipe("ner")
    source.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    expected = [token.tag_ for token in source("I like Paris")]
    nlp.get_pipe("tagger").from_bytes(source.get_pipe("tagger").to_bytes())
    with nlp.select_pipes(disable=["elmo"]):
        assert [token.tag_ for token in nlp("I like Paris")] == expected


@pytest.mark.parametrize("width", [None, 12])
def test_entity_linker(width):
    """Its model has a residual connection as wide as the listener's vectors."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("sentencizer")
    add_elmo(nlp)
    model = {
        "@architectures": "spacy.EntityLinker.v2",
        "tok2vec": {**LISTENER, "width": width},
    }
    linker = nlp.add_pipe("entity_linker", config={"model": model})

    def make_kb(vocab):
        kb = InMemoryLookupKB(vocab, entity_vector_length=3)
        kb.add_entity("Q1", freq=1, entity_vector=[1, 2, 3])
        kb.add_entity("Q2", freq=1, entity_vector=[-1, 0, 1])
        kb.add_alias("Paris", entities=["Q1", "Q2"], probabilities=[0.5, 0.4])
        return kb

    batch = [
        Example.from_dict(
            nlp.make_doc("She hates Paris now"),
            {
                "entities": [(10, 15, "LOC")],
                "links": {(10, 15): {"Q1": 1.0, "Q2": 0.0}},
                "sent_starts": [1, -1, -1, -1],
            },
        )
    ]
    linker.set_kb(make_kb)
    optimizer = nlp.initialize(lambda: batch)
    losses = [
        nlp.update(batch, sgd=optimizer, annotates=["sentencizer"])["entity_linker"]
        for _ in range(10)
    ]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("other", "has"),
    [
        ({"n_layers": 3}, r"4 layers \(width 12"),
        ({"projection_dim": 8}, r"3 layers \(width 16"),
    ],
)
def test_trained_on_another_bilm(other, has):
    source = trained()
    nlp = spacy.blank("xx")
    add_elmo(nlp, sizes=tiny_config(**other))
    with pytest.raises(ValueError, match=rf"EL060.*on 3 layers \(.*12.*{has}"):
        nlp.add_pipe("tagger", source=source)


def test_two_upstreams_are_learned_from_at_once():
    """Each component's gradients go to the one it listens to, and to no other."""
    nlp = spacy.blank("xx")
    first = add_elmo(nlp, name="first", frozen=False, learn_rate_factor=1.0)
    second = add_elmo(
        nlp, name="second", sizes=tiny_config(projection_dim=8), frozen=False,
        learn_rate_factor=1.0,
    )  # fmt: skip
    for name in ("first", "second"):
        tok2vec = {**TAGGER["model"]["tok2vec"], "upstream": name}
        nlp.add_pipe(
            "tagger",
            name=f"on {name}",
            config={"model": {**TAGGER["model"], "tok2vec": tok2vec}},
        )
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    assert first.listening_components == ["on first"]
    assert second.listening_components == ["on second"]
    before = [
        {n: p.detach().clone() for n, p in elmo.bilm.named_parameters()}
        for elmo in (first, second)
    ]

    def changed(elmo, known):
        return any(not p.equal(known[n]) for n, p in elmo.bilm.named_parameters())

    with nlp.select_pipes(disable=["on second"]):
        for _ in range(2):  # the tagger's last layer begins with zeros
            nlp.update(batch, sgd=optimizer)
    assert changed(first, before[0]) and not changed(second, before[1])
    losses = [nlp.update(batch, sgd=optimizer) for _ in range(30)]
    assert changed(second, before[1])
    for name in ("on first", "on second"):
        assert losses[-1][name] < losses[0][name]


def test_the_nearest_of_two_upstreams():
    nlp = spacy.blank("xx")
    add_elmo(nlp, name="first")
    second = add_elmo(nlp, name="second", sizes=tiny_config(projection_dim=8))
    nlp.add_pipe("tagger", config=TAGGER)
    assert nlp.get_pipe("first").listeners == []
    (listener,) = second.listeners
    assert listener.upstream is second and listener.get_dim("nO") == 16


def test_two_upstreams_of_different_depth_come_back(tmp_path):
    """A trained mix fits the nearer one, and it alone is asked."""
    nlp = spacy.blank("xx")
    add_elmo(nlp, name="first")
    add_elmo(nlp, name="second", sizes=tiny_config(n_layers=1))
    nlp.add_pipe("tagger", config=TAGGER)
    batch = [Example.from_dict(nlp.make_doc("a b"), {"tags": ["X", "Y"]})]
    optimizer = nlp.initialize(lambda: batch)
    for _ in range(3):
        nlp.update(batch, sgd=optimizer)
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    for pipeline in (nlp, loaded):
        assert pipeline.get_pipe("first").listeners == []
        (listener,) = pipeline.get_pipe("second").listeners
        assert len(listener.get_param("W")) == 2 and listener.get_param("W").any()
    with pytest.raises(ValueError, match="EL060"):  # now it would listen to the first
        nlp.remove_pipe("second")


def test_two_upstreams_of_one_name():
    nlp = spacy.blank("xx")
    add_elmo(nlp)
    with pytest.raises(ValueError, match=r"E007.*elmo"):  # spaCy's own
        add_elmo(nlp)
