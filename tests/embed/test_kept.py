"""Smaller vectors: what is kept, what it costs, and how much room it takes."""

import time

import numpy as np
import pytest
import spacy
from spacy.util import load_config_from_str, load_model_from_config

from spacy_elmo import embed
from spacy_elmo.embed import run, verify
from spacy_elmo.embed.folder import Workspace
from spacy_elmo.embed.model import Computing, Kept, load_model
from spacy_elmo.embed.plan import read_plan
from spacy_elmo.embed.planning import readable, size_on_disk
from spacy_elmo.embed.progress import Progress, rounding_error
from spacy_elmo.pipeline import make_config

from ..models import needs, tiny_config
from ..pipelines import LISTENER, TAGGER, add_elmo, examples, listeners, pipeline
from .corpora import (
    SMALL,
    embed_files,
    lines,
    make_plan,
    save_model,
    shards,
    write_lines,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    write_lines(folder / "a.txt")
    save_model(folder / "model")
    return folder


@pytest.fixture(scope="module")
def float32(folder):
    """Vectors of each document, and of its sentences."""
    corpus = embed.open(embed_files(folder, [str(folder / "a.txt")]))
    return [[s.vectors for s in document.sentences] for document in corpus]


def kept(folder, tmp_path, **options):
    output = tmp_path / "vectors"
    inputs = [str(folder / "a.txt")]
    make_plan(str(folder / "model"), inputs, output, shard_mb=SMALL, **options)
    run(output)
    assert verify(output, full=True).problems == []
    return embed.open(output)


def test_float16(folder, tmp_path, float32):
    corpus = kept(folder, tmp_path, dtype="float16")
    for document, sentences in zip(corpus, float32, strict=True):
        expected = np.concatenate(sentences).astype(np.float16)
        assert np.array_equal(document.vectors, expected)


@pytest.mark.parametrize("layers", ["average", "all"])
def test_int8_has_a_scale_for_each_vector(folder, tmp_path, layers):
    """A layer of small values loses no more of them than one of large values."""
    corpus = kept(folder, tmp_path / "int8", dtype="int8", layers=layers)
    exact = kept(folder, tmp_path / "float32", layers=layers)
    for document, whole in zip(corpus, exact, strict=True):
        found, expected = document.vectors, whole.vectors
        largest = np.abs(expected).max(axis=-1, keepdims=True)
        if layers == "all":
            assert (largest.max(axis=1) > 3 * largest.min(axis=1)).all()
        assert (np.abs(found - expected) <= largest / 254 * 1.0001).all()
        assert found.dtype == np.float32 and np.abs(found).max() > 0


@pytest.mark.parametrize(("dtype", "low", "high"), [("float16", 1e-5, 1e-3),
                                                    ("int8", 1e-3, 1e-2)])  # fmt: skip
def test_what_rounding_costs_is_measured(folder, tmp_path, float32, dtype, low, high):
    corpus = kept(folder, tmp_path, dtype=dtype)
    said = rounding_error(corpus.plan, corpus.output)
    expected = np.concatenate([rows for document in float32 for rows in document])
    found = np.concatenate([document.vectors for document in corpus])
    difference = found.astype("f8") - expected
    relative = np.sqrt((difference**2).sum() / (expected.astype("f8") ** 2).sum())
    assert low < relative < high
    assert said["relative_error"] == pytest.approx(relative, rel=1e-5)
    assert said["largest_error"] == pytest.approx(np.abs(difference).max(), rel=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("pool", ["sentence", "doc"])
def test_pooled_vectors_are_means(folder, tmp_path, float32, pool, dtype):
    corpus = kept(folder, tmp_path, pool=pool, dtype=dtype)
    tolerance = {"float32": 1e-7, "float16": 1e-3, "int8": 1e-2}[dtype]
    for document, sentences in zip(corpus, float32, strict=True):
        if pool == "doc":
            expected = np.concatenate(sentences).mean(axis=0, dtype=np.float64)
        else:
            expected = [rows.mean(axis=0, dtype=np.float64) for rows in sentences]
            assert len(list(document.sentences)) == len(sentences)
        assert np.abs(document.vectors - expected).max() <= tolerance


def test_half_precision_is_exact_and_verified_alone(folder, tmp_path):
    needs("half")
    output, again = tmp_path / "half", tmp_path / "half-again"
    options = {"computing": Computing(precision="half"), "shard_mb": SMALL}
    inputs = [str(folder / "a.txt")]
    plan, _ = make_plan(str(folder / "model"), inputs, output, **options)
    assert plan.computing.exact
    run(output)
    make_plan(str(folder / "model"), inputs, again, **options)
    for part in (2, 1):
        run(again, share=(part, 2))
    assert shards(again) == shards(output)
    assert verify(output, full=True).problems == []


def test_int8_arithmetic_is_gone(folder, tmp_path):
    options = {"computing": Computing(precision="int8")}
    with pytest.raises(ValueError, match=r"EL097.*'half'"):
        make_plan(str(folder / "model"), [str(folder / "a.txt")], tmp_path, **options)


# -- mixes ------------------------------------------------------------------------


def sizes():
    return tiny_config(hidden_dim=32, projection_dim=16, char_dim=16)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_mix_of_a_pipeline_is_its_tensor(folder, tmp_path, layer_norm):
    nlp = spacy.blank("xx")
    mix = {"mix_weights": [0.5, -1.0, 2.0], "gamma": 1.5, "layer_norm": layer_norm}
    add_elmo(nlp, sizes=sizes(), **mix)
    nlp.to_disk(tmp_path / "pipeline")
    output = tmp_path / "vectors"
    text = [str(folder / "a.txt")]
    options = {"layers": "mix", "shard_mb": SMALL}
    make_plan(str(tmp_path / "pipeline"), text, output, **options)
    run(output)
    nlp.add_pipe("sentencizer", first=True)
    for number, line in enumerate(lines()):
        doc, found = nlp(line), nlp.make_doc(line)
        embed.open(output).set_tensor(found, number)
        assert np.allclose(found.tensor, doc.tensor, rtol=1e-6, atol=1e-6)


def test_the_mix_of_a_component(folder, tmp_path):
    nlp = pipeline()
    nlp.initialize(lambda: examples(nlp))
    mixes = [("tagger", [0.0, 1.0, 2.0], 0.5), ("ner", [3.0, 0.0, 0.0], 2.0)]
    for name, weights, gamma in mixes:
        (listener,) = [
            node
            for node in nlp.get_pipe(name).model.walk()
            if node.name == "elmo-listener"
        ]
        listener.set_param("W", np.array(weights, dtype=np.float32))
        listener.set_param("gamma", np.array([gamma], dtype=np.float32))
    nlp.to_disk(tmp_path / "pipeline")
    model, text = str(tmp_path / "pipeline"), [str(folder / "a.txt")]
    for name, weights, gamma in mixes:
        options = {"layers": "mix", "mix_of": name}
        plan, _ = make_plan(model, text, tmp_path / name, **options)
        expected = gamma * np.exp(weights) / np.exp(weights).sum()
        assert plan.kept.weights == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ValueError, match="EL215"):
        make_plan(model, text, tmp_path / "x", layers="mix", mix_of="parser")
    spacy.blank("xx").to_disk(tmp_path / "other")
    with pytest.raises(ValueError, match="EL215"):
        make_plan(str(tmp_path / "other"), text, tmp_path / "x", layers="mix")


def test_the_mix_of_what_init_config_writes(folder, tmp_path):
    """Its listeners normalise the layers."""
    config = load_config_from_str(
        make_config(["tagger"], weights=str(folder / "model"))
    )
    nlp = load_model_from_config(config, auto_fill=True)
    nlp.initialize(lambda: examples(nlp))
    (listener,) = listeners(nlp)
    listener.set_param("W", np.array([0.0, 1.0, -1.0], dtype=np.float32))
    nlp.to_disk(tmp_path / "pipeline")
    output, text = tmp_path / "vectors", [str(folder / "a.txt")]
    options = {"layers": "mix", "mix_of": "tagger", "shard_mb": SMALL}
    make_plan(str(tmp_path / "pipeline"), text, output, **options)
    run(output)
    nlp.add_pipe("sentencizer", first=True)
    for number, line in enumerate(lines()[:5]):
        doc, found = nlp(line), nlp.make_doc(line)
        embed.open(output).set_tensor(found, number)
        (expected,) = listener.predict([doc])
        assert np.abs(found.tensor - expected).max() < 1e-5


def test_a_pipeline_that_concatenates_layers(folder, tmp_path):
    """It has no mix, but all other choices of layers."""
    nlp = spacy.blank("xx")
    add_elmo(nlp, sizes=sizes(), mix="concat")
    nlp.to_disk(tmp_path / "pipeline")
    model, text = str(tmp_path / "pipeline"), [str(folder / "a.txt")]
    with pytest.raises(ValueError, match=r"EL215.*take 'all' layers"):
        make_plan(model, text, tmp_path / "mix", layers="mix")
    plan, _ = make_plan(model, text, tmp_path / "all", layers="all")
    assert plan.kept.layers == (0, 1, 2)
    assert run(tmp_path / "all").tokens > 0


# -- sizes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"dtype": "int8", "layers": "all"}, {"pool": "sentence"}, {"pool": "doc"}],
)
def test_size_is_known_beforehand(folder, tmp_path, options):
    corpus = kept(folder, tmp_path, **options)
    found = sum(p.stat().st_size for p in (corpus.output / "shards").iterdir())
    plan = read_plan(corpus.output)
    assert plan.estimate["bytes"] == pytest.approx(found, rel=0.1)
    state = Progress(plan, corpus.output).look()
    assert state.jobs == plan.n_jobs and state.n_bytes == plan.estimate["input_bytes"]


def test_a_clock_that_has_not_moved_yet(folder, tmp_path):
    """Some tick every 16 ms: a first block may have taken no time."""
    make_plan(str(folder / "model"), [str(folder / "a.txt")], tmp_path, shard_mb=SMALL)
    with Workspace(tmp_path) as workspace:
        workspace.tell(job_bytes=1, bytes=1, tokens=1, seconds=0.0)
        assert Progress(read_plan(tmp_path), tmp_path).look().tokens_per_second > 0


def test_seconds_that_are_left(folder, tmp_path):
    """By the speed of all that are at work; nobody knows where nobody is."""
    make_plan(str(folder / "model"), [str(folder / "a.txt")], tmp_path, shard_mb=SMALL)
    progress = Progress(read_plan(tmp_path), tmp_path)
    assert progress.look().seconds_left is None
    size = (folder / "a.txt").stat().st_size
    with Workspace(tmp_path) as one, Workspace(tmp_path) as other:
        one.tell(job_bytes=300, bytes=900, tokens=9, seconds=9.0)  # 100 bytes/s
        other.tell(job_bytes=200, bytes=800, tokens=8, seconds=4.0)  # 200 bytes/s
        state = progress.look()
    assert (state.workers, state.n_bytes, state.tokens_per_second) == (2, 500, 3.0)
    assert state.seconds_left == pytest.approx((size - 500) / 300)


@pytest.mark.parametrize(
    ("first", "later", "end"), [(3.0, 3.0, 1000), (300.0, 0.01, 310)]
)
def test_looks_at_very_many_shards_are_few(
    folder, tmp_path, monkeypatch, first, later, end
):
    """Where each takes seconds; but not for long after a slow first one, at shards that
    were there before."""
    make_plan(str(folder / "model"), [str(folder / "a.txt")], tmp_path, shard_mb=SMALL)
    now, look, looks = [0.0], Progress.look, []

    def slow(progress):
        now[0] += later if looks else first
        looks.append(now[0])
        return look(progress)

    monkeypatch.setattr(Progress, "look", slow)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = Progress(read_plan(tmp_path), tmp_path, show=True)
    while now[0] < end:
        progress.show()
        now[0] += 0.1
    progress.close()
    assert 5 < len(looks) < 15


def test_size_of_a_billion_tokens():
    counts = {"tokens": 10**9, "sentences": 10**9 // 22, "documents": 10**9 // 22}
    average = Kept((1 / 3,) * 3, (0, 1, 2), 512)
    assert readable(size_on_disk(average, counts, 1200)) == "2.07 TB"
    assert readable(999) == "999 B" and readable(0) == "0 B"
    assert readable(1.2e15) == "1.2 PB"


def test_the_bilm_is_the_one_that_is_listened_to(tmp_path):
    """There can be several, and the last one that sets it makes doc.tensor."""
    nlp = spacy.blank("xx")
    bilms = [
        add_elmo(nlp, name=f"elmo{n}", seed=n, set_tensor=n < 2).bilm for n in range(3)
    ]
    for n in range(3):
        model = {**TAGGER["model"], "tok2vec": {**LISTENER, "upstream": f"elmo{n}"}}
        nlp.add_pipe("tagger", name=f"tagger{n}", config={"model": model})
    nlp.initialize(lambda: examples(nlp))
    nlp.to_disk(tmp_path)
    for n, bilm in enumerate(bilms):
        found, _ = load_model(str(tmp_path), f"tagger{n}")
        assert found.fingerprint() == bilm.fingerprint()
    found, _ = load_model(str(tmp_path))
    assert found.fingerprint() == bilms[1].fingerprint()
