"""[h_k; ELMo_k] and the sublayers that stand beside ELMo."""

import numpy as np
import pytest
import spacy
from spacy.vectors import Vectors

from spacy_elmo.pipeline import ElmoListener, learned_mixes
from spacy_elmo.pipeline.architectures import build_encode

from ..pipelines import add_elmo, examples

WIDTH = 16
HASHES = {
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": WIDTH,
    "attrs": ["NORM"],
    "rows": [50],
    "include_static_vectors": False,
}
WIDER, NARROWER = ({**HASHES, "width": width} for width in (WIDTH + 5, WIDTH - 5))
STATIC = {**HASHES, "include_static_vectors": True}
CHARACTERS = {
    "@architectures": "spacy.CharacterEmbed.v2",
    "width": WIDTH,
    "rows": 50,
    "nM": 4,
    "nC": 4,
    "include_static_vectors": False,
}
WINDOW = {
    "@architectures": "spacy.MaxoutWindowEncoder.v2",
    "width": WIDTH,
    "depth": 1,
    "window_size": 1,
    "maxout_pieces": 2,
}
BILSTM = {
    "@architectures": "spacy.TorchBiLSTMEncoder.v1",
    "width": WIDTH,
    "depth": 1,
    "dropout": 0.0,
}


def pipeline(
    *, at="both", embed=HASHES, encode=WINDOW, width=WIDTH, others=(), **listener
):
    nlp = spacy.blank("xx")
    words = ["I", "like", "London", "She"]
    nlp.vocab.vectors = Vectors(data=np.eye(4, dtype="float32"), keys=words)
    for name in ("elmo", *others):
        add_elmo(nlp, name=name)
    tok2vec = {
        "@architectures": "spacy-elmo.Encode.v1",
        "at": at,
        "width": width,
        "embed": embed,
        "encode": encode,
        "elmo": {"@architectures": "spacy-elmo.ElmoListener.v1", **listener},
    }
    model = {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}
    nlp.add_pipe("tagger", config={"model": model})
    return nlp


def listeners_of(nlp):
    nodes = nlp.get_pipe("tagger").model.walk(order="dfs_pre")
    return [node for node in nodes if isinstance(node, ElmoListener)]


@pytest.mark.parametrize("encode", [WINDOW, BILSTM])
@pytest.mark.parametrize(
    ("at", "n", "width"),
    [("input", 1, WIDTH), ("output", 1, WIDTH + 12), ("both", 2, 28)],
)
def test_places(at, n, width, encode):
    nlp = pipeline(at=at, encode=encode)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    tok2vec = nlp.get_pipe("tagger").model.get_ref("tok2vec")
    docs = list(nlp.pipe(["We saw Kim", ""]))
    found = tok2vec.predict(docs)
    assert [vectors.shape for vectors in found] == [(3, width), (0, width)]
    listeners = listeners_of(nlp)
    assert len(listeners) == n
    if at != "input":  # at the end of the vectors stands ELMo as it is
        elmo = listeners[-1].predict(docs)
        assert np.allclose(found[0][:, WIDTH:], elmo[0], atol=1e-6)
    losses = [nlp.update(batch, sgd=optimizer)["tagger"] for _ in range(25)]
    assert losses[-1] < losses[0]
    gammas = [float(listener.get_param("gamma")[0]) for listener in listeners]
    assert len(set(gammas)) == n and 1.0 not in gammas


def own_parameters(nlp):
    """Return the parameters of what makes the task's own vectors of tokens."""
    found = {}
    for node in nlp.get_pipe("tagger").model.walk():
        if node.name == "static_vectors":
            found["static"] = node.get_param("W").copy()
        elif node.name == "hashembed":
            found["hashes"] = node.get_param("E").copy()
        elif node.name == "charembed":
            found["characters"] = node.get_param("E").copy()
    return found


@pytest.mark.parametrize("embed", [HASHES, STATIC, CHARACTERS, WIDER, NARROWER])
@pytest.mark.parametrize(
    "at",
    ["both", *(pytest.param(x, marks=pytest.mark.slow) for x in ("input", "output"))],
)
def test_sublayers_are_trained_and_saved(embed, at, tmp_path):
    nlp = pipeline(at=at, embed=embed)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    before = own_parameters(nlp)
    losses = [nlp.update(batch, sgd=optimizer)["tagger"] for _ in range(25)]
    assert losses[-1] < losses[0]
    after = own_parameters(nlp)
    assert after
    for name, values in after.items():
        assert not np.array_equal(values, before[name]), name
    doc = nlp("She likes London\u00a0가 " + "x" * 200)
    nlp.to_disk(tmp_path)
    tok2vec = nlp.get_pipe("tagger").model.get_ref("tok2vec")
    loaded = spacy.load(tmp_path)
    other = loaded.get_pipe("tagger").model.get_ref("tok2vec")
    (again,) = other.predict([loaded(doc.text)])
    assert np.allclose(again, tok2vec.predict([doc])[0], atol=1e-6)


@pytest.mark.parametrize("embed", [HASHES, CHARACTERS, WIDER, NARROWER])
def test_width_that_is_not_known_without_a_sample(embed):
    nlp = pipeline(at="output", embed=embed)
    tok2vec = nlp.get_pipe("tagger").model.get_ref("tok2vec")
    tok2vec.initialize()
    docs = list(nlp.pipe(["We saw Kim", ""], disable=["tagger"]))
    if embed["width"] == WIDTH:
        assert tok2vec.predict(docs)[0].shape == (3, WIDTH + 12)
    else:
        with pytest.raises(
            ValueError, match=rf"EL141.*16 columns, .* {embed['width']}\."
        ):
            tok2vec.predict(docs)


@pytest.mark.parametrize("at", ["input", "output", "both"])
@pytest.mark.parametrize("encode", [WINDOW, BILSTM])
def test_an_encoder_of_another_width(encode, at):
    with pytest.raises(ValueError, match=r"EL144.*width = 24.*width 16"):
        pipeline(at=at, encode=encode, width=24)


@pytest.mark.parametrize(
    ("name", "instead"),
    [("StaticVectors", "include_static_vectors"), ("CharCnn", "CharacterEmbed")],
)
def test_architectures_of_0_2_name_those_of_spacy(name, instead):
    embed = {"@architectures": f"spacy-elmo.{name}.v1", "width": WIDTH}
    with pytest.raises(ValueError, match=rf"EL241.*spacy-elmo\.{name}\.v1.*{instead}"):
        pipeline(embed=embed)


def test_mixes_are_listed_from_the_input_up():
    nlp = pipeline(at="both")
    nlp.initialize(lambda: examples(nlp))
    docs = list(nlp.pipe(["We saw Kim"]))
    vectors = nlp.get_pipe("tagger").model.get_ref("tok2vec").predict(docs)[0]
    below, above = listeners_of(nlp)
    if not np.allclose(vectors[:, WIDTH:], above.predict(docs)[0]):
        below, above = above, below
    below.set_param("W", np.array([5, 0, 0], dtype="float32"))
    above.set_param("gamma", np.array([2], dtype="float32"))
    first, second = learned_mixes(nlp)
    assert first.place == 1 and first.shares[0] > 0.9 and first.gamma == 1
    assert second.place == 2 and second.gamma == 2
    assert nlp.get_pipe("elmo").listener_map["tagger"] == [below, above]


@pytest.mark.parametrize("path", ["model.tok2vec.elmo", "model.tok2vec"])
@pytest.mark.parametrize("at", ["input", "both"])
@pytest.mark.parametrize("mix", ["learned", "top", "concat"])
def test_replaced(tmp_path, mix, at, path):
    """The path of the listener, or of what it is in, once for each listener."""
    nlp = pipeline(at=at, mix=mix, layer_norm=True)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    for _ in range(5):
        nlp.update(batch, sgd=optimizer)
    doc = nlp("We saw Kim")
    tagger = nlp.get_pipe("tagger")
    before = tagger.model.predict([doc])[0]
    nlp.replace_listeners("elmo", "tagger", [path] * len(listeners_of(nlp)))
    assert not listeners_of(nlp) and not nlp.get_pipe("elmo").listener_map
    nlp.remove_pipe("elmo")
    nlp.to_disk(tmp_path)
    for again in (nlp, spacy.load(tmp_path)):
        found = again.get_pipe("tagger").model.predict([again("We saw Kim")])[0]
        assert np.allclose(found, before, atol=1e-5)


@pytest.mark.parametrize(
    ("refused", "path"),
    [
        ("model.tok2vec.elmo", "model.tok2vec.elmo"),
        ("model.tok2vec.elmo", "model.tok2vec"),
        ("model.tok2vec", "model.tok2vec"),
    ],
)
def test_replaced_after_a_path_that_does_not_exist(tmp_path, refused, path):
    """spaCy has changed the configuration by then, but not the model."""
    nlp = pipeline(mix="top", layer_norm=True)
    nlp.initialize(lambda: examples(nlp))
    before = nlp.get_pipe("tagger").model.predict([nlp("We saw Kim")])[0]
    configured = nlp.config["components"]["tagger"]
    with pytest.raises(ValueError, match="E886"):
        nlp.replace_listeners("elmo", "tagger", [refused, "model.tok2vec.typo"])
    if refused == "model.tok2vec.elmo":
        assert nlp.config["components"]["tagger"] == configured
    nlp.replace_listeners("elmo", "tagger", [path] * 2)
    nlp.remove_pipe("elmo")
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    found = loaded.get_pipe("tagger").model.predict([loaded("We saw Kim")])[0]
    assert np.allclose(found, before, atol=1e-5)


@pytest.mark.parametrize("path", ["model.tok2vec.elmo", "model.tok2vec"])
def test_replaced_beside_a_listener_of_another_elmo(tmp_path, path):
    """Which stays, and has other settings."""
    listener = {"@architectures": "spacy-elmo.ElmoListener.v1", "upstream": "other"}
    embed = {**listener, "mix": "top", "layer_norm": True}
    nlp = pipeline(
        at="input", embed=embed, others=["other"], upstream="elmo", gamma=2.0
    )
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    for _ in range(5):
        nlp.update(batch, sgd=optimizer)
    doc = nlp("We saw Kim")
    before = nlp.get_pipe("tagger").model.predict([doc])[0]
    nlp.replace_listeners("elmo", "tagger", [path])
    nlp.remove_pipe("elmo")
    assert nlp.get_pipe("other").listening_components == ["tagger"]
    nlp.to_disk(tmp_path)
    for again in (nlp, spacy.load(tmp_path)):
        found = again.get_pipe("tagger").model.predict([again("We saw Kim")])[0]
        assert np.allclose(found, before, atol=1e-5)


def test_unknown_place():
    with pytest.raises(ValueError, match="EL089"):
        build_encode(None, None, None, WIDTH, at="middle")
