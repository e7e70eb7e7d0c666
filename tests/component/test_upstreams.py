"""Which `elmo` a listener hears: by name, the nearest, none, one that does not fit."""

import gc

import pytest
import spacy
from spacy.training import Example

from ..models import tiny_config
from ..pipelines import LISTENER, TAGGER, add_elmo, examples, trained


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


def test_removed_upstream_is_an_error():
    nlp = trained()
    nlp.remove_pipe("elmo")
    gc.collect()
    with pytest.raises(ValueError, match="EL053"):
        nlp("I like Paris")


@pytest.mark.parametrize(
    "other, has",
    [
        ({"n_layers": 3}, r"4 layers \(width 12"),
        ({"projection_dim": 8}, r"3 layers \(width 16"),
    ],
)
def test_trained_on_another_bilm(other, has):
    source = trained()
    nlp = spacy.blank("en")
    add_elmo(nlp, sizes=tiny_config(**other))
    with pytest.raises(ValueError, match=rf"EL060.*on 3 layers \(.*12.*{has}"):
        nlp.add_pipe("tagger", source=source)


def test_two_upstreams_are_learned_from_at_once():
    """Each component's gradients go to the one it listens to, and to no other."""
    nlp = spacy.blank("en")
    first = add_elmo(nlp, name="first", frozen=False, learn_rate=None)
    second = add_elmo(
        nlp, name="second", sizes=tiny_config(projection_dim=8), frozen=False,
        learn_rate=None,
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
    nlp = spacy.blank("en")
    add_elmo(nlp, name="first")
    second = add_elmo(nlp, name="second", sizes=tiny_config(projection_dim=8))
    nlp.add_pipe("tagger", config=TAGGER)
    assert nlp.get_pipe("first").listeners == []
    (listener,) = second.listeners
    assert listener.upstream is second and listener.get_dim("nO") == 16


def test_two_upstreams_of_different_depth_come_back(tmp_path):
    """A trained mix fits the nearer one, and it alone is asked."""
    nlp = spacy.blank("en")
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
    nlp = spacy.blank("en")
    add_elmo(nlp)
    with pytest.raises(ValueError, match=r"E007.*elmo"):  # spaCy's own
        add_elmo(nlp)
