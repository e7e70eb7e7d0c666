"""A biLM of its own in the place of a listener, and listeners inside of encoders."""

import numpy as np
import pytest
import spacy
import torch
from spacy.training import Example

from ..models import tiny_config
from ..pipelines import (
    LISTENER,
    NER,
    TAGGER,
    add_elmo,
    annotations,
    examples,
    listeners,
    mix_of,
    moved,
    parameters,
    sizes,
    trained,
)

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


def test_replaced_inside_of_an_encoder_keeps_its_settings(tmp_path):
    """Those of the listener, wherever it stands in the component's tok2vec."""
    nlp = spacy.blank("xx")
    add_elmo(nlp)
    listener = {**LISTENER, "layer_norm": True, "mix": "concat", "gamma": 0.5}
    embed = {**EMBED, "elmo": listener}
    tok2vec = {**TOK2VEC, "embed": embed}
    nlp.add_pipe("tagger", config={"model": {**TAGGER["model"], "tok2vec": tok2vec}})
    nlp.initialize(lambda: examples(nlp))
    docs = [nlp("I like Paris now")]
    expected = nlp.get_pipe("tagger").model.get_ref("tok2vec").predict(docs)[0]
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec.embed.elmo"])
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    found = loaded.get_pipe("tagger").model.get_ref("tok2vec").predict(docs)[0]
    assert np.allclose(found, expected, atol=1e-6)


def test_tok2vec_without_weights(tmp_path):
    """Named by hand in a configuration, or put in place before elmo was used."""
    nlp = spacy.blank("en")
    tok2vec = {"@architectures": "spacy-elmo.Tok2Vec.v1", "bilm": sizes(tiny_config())}
    nlp.add_pipe("tagger", config={"model": {**TAGGER["model"], "tok2vec": tok2vec}})
    batch = [Example.from_dict(nlp.make_doc("a b"), {"tags": ["X", "Y"]})]
    with pytest.raises(ValueError, match=r"EL095.*source = PATH"):
        nlp.initialize(lambda: batch)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.add_pipe("tagger", config=TAGGER)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    nlp.initialize(lambda: batch)
    assert nlp("a b")[0].tag_


@pytest.mark.slow
def test_beside_the_components_own_embeddings(tmp_path):
    """[x_k; ELMo_k] under an encoder: trained, saved, and with a biLM of its own."""
    nlp = spacy.blank("xx")
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
