"""Experiments: made once, resumed, compared."""

import json
from collections import defaultdict

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus, Example
from spacy.training.loop import create_train_batches
from spacy.util import registry
from thinc.api import Linear, get_current_ops

from experiments import experiments, experiments_report, probe
from experiments.experiments import Run, make
from experiments.kept_corpus import kept_corpus
from experiments.products import by_numpy
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.component.mixes import learned_mixes
from spacy_elmo.component.training_config import make_config

from ..cli.test_spacy_commands import annotated
from ..models import tiny_config

STEPS = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experiments")
    for corpus in ("ewt-pos", "ewt-ner", "wnut17"):
        (folder / "corpus" / corpus).mkdir(parents=True)
        for part in ("train", "dev", "test"):
            annotated(folder / "corpus" / corpus / f"{part}.spacy")
    BiLM.random(tiny_config(), seed=1).save(folder / "bilm")
    return folder


def made(folder, task, setup, seed=0, **settings):
    return make(
        Run(task, setup, seed),
        folder / "runs",
        folder / "corpus",
        weights=str(folder / "bilm"),
        steps=settings.pop("steps", STEPS),
        layer_cache="memory",
        **settings,
    )


@pytest.mark.slow
def test_runs_are_made_once_and_reported(folder, monkeypatch, capsys):
    setups = ["baseline", "elmo", "average", "baseline 10%", "elmo 10%"]
    found = {s: made(folder, "ewt-xpos", s) for s in setups}
    made(folder, "ewt-ner", "baseline")
    for setup, metrics in found.items():
        assert 0 <= metrics["score"] <= 1 and metrics["setup"] == setup
        assert [row["step"] for row in metrics["history"]] == list(range(STEPS + 1))
    few = made(folder, "wnut17", "baseline", evaluations=2)
    assert [row["step"] for row in few["history"]] == [0, STEPS // 2, STEPS]
    nlp = spacy.load(folder / "runs" / "ewt-xpos" / "baseline" / "0" / "model-best")
    assert nlp.pipe_names == ["tagger"]
    nlp = spacy.load(folder / "runs" / "ewt-xpos" / "elmo" / "0" / "model-best")
    assert nlp.pipe_names == ["elmo", "tagger"]
    # The same command again trains nothing; one that was interrupted is made anew.
    monkeypatch.setattr(experiments, "spacy_train", None)
    assert made(folder, "ewt-xpos", "elmo") == found["elmo"]
    (folder / "runs" / "ewt-ner" / "baseline" / "0" / "metrics.json").unlink()
    with pytest.raises(TypeError):
        made(folder, "ewt-ner", "baseline")
    monkeypatch.undo()
    made(folder, "ewt-ner", "baseline")
    with pytest.raises(ValueError, match=r"EL092.*elmo/0"):
        made(folder, "ewt-xpos", "elmo", steps=STEPS + 1)
    BiLM.random(tiny_config(), seed=2).save(folder / "bilm")  # another one
    with pytest.raises(ValueError, match="EL092"):
        made(folder, "ewt-xpos", "elmo")
    with pytest.raises(ValueError, match="EL033"):
        made(folder, "ewt-xpos", "spacy pretrain")
    layers = folder / "layers"
    layers.mkdir()
    scores = {"without": 0.5, "layers": [0.25, 0.5, 0.75]}
    (layers / "some_probe.json").write_text(json.dumps(scores))
    contexts = folder / "neighbours.md"
    contexts.write_text("**눈** (4 contexts)", encoding="utf-8")
    others = folder / "others"  # runs with another budget
    others.mkdir()
    (folder / "runs" / "wnut17").rename(others / "wnut17")
    runs = [folder / "runs", others]
    experiments_report.main(runs, folder / "report", layers, contexts)
    report = (folder / "report" / "report.md").read_text(encoding="utf-8")
    for metrics in (found["baseline"], found["elmo"], found["average"]):
        assert f"{100 * metrics['score']:.2f} (1 seed)" in report
    assert "**눈** (4 contexts)" in report
    assert report.count(f"{STEPS} updates a run") == 2
    assert f"{100 * few['score']:.2f} (1 seed)" in report.partition("## others")[2]
    assert "| some probe | 50.00 | 25.00 | 50.00 | 75.00 |" in report
    for picture in ("runs_learning.png", "runs_shares.png", "runs_mixes.png"):
        assert picture in report
        content = (folder / "report" / picture).read_bytes()
        assert content[:4] == b"\x89PNG"
    runs = [folder / "nothing", others]
    experiments_report.main(runs, folder / "few", layers, contexts)
    report = (folder / "few" / "report.md").read_text(encoding="utf-8")
    assert "## nothing" not in report and "## others" in report
    with pytest.raises(SystemExit):
        experiments_report.main(runs[:1], folder / "few", layers, contexts)


@pytest.mark.slow
def test_every_setup_trains(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    BiLM.random(tiny_config(), seed=3).save(tmp_path / experiments.DOMAIN)
    text = tmp_path / "text.txt"
    text.write_text("She likes London now. He runs to the river.\n" * 5)
    setups = [name for name in experiments.SETUPS if "%" not in name]
    options = {"seeds": 1, "steps": 1, "evaluations": 1, "layer_cache": "memory"}
    experiments.main(
        tmp_path / "runs",
        folder / "corpus",
        tasks="ewt-xpos",
        setups=",".join(setups),
        weights=str(folder / "bilm"),
        text=text,
        text_lines=0,
        pretrained_in=tmp_path / "pretrained",
        gpu=-1,
        **options,
    )
    found = experiments_report.read(tmp_path / "runs")
    assert {setup for _, setup in found} == set(setups)
    for name in setups:
        setup = experiments.SETUPS[name]
        (metrics,) = found["ewt-xpos", name]
        assert 0 <= metrics["score"] <= 1
        place = Run("ewt-xpos", name, 0).folder(tmp_path / "runs") / "model-best"
        nlp = spacy.load(place)
        mixes = learned_mixes(nlp) if nlp.has_pipe("elmo") else []
        assert len(mixes) == len(setup.settings.get("places", ["input"]))
        wanted = setup.settings.get("listener", {}).get("mix", "learned")
        assert {mix.kind for mix in mixes} <= {wanted}
        if mixes:
            frozen = setup.settings.get("frozen", True)
            assert nlp.get_pipe("elmo").frozen is frozen


@pytest.mark.slow
def test_pretrained_by_spacy(folder):
    text = folder / "text.txt"
    text.write_text("She likes London now. He runs to the river.\n" * 40)
    place = folder / "pretrained"
    settings = {"text": text, "text_lines": 30, "pretrained_in": place}
    runs = [("ewt-xpos", 0), ("ewt-xpos", 1), ("ewt-ner", 0)]
    for task, seed in runs:
        found = made(folder, task, "spacy pretrain", seed, steps=1, **settings)
        assert (found["task"], found["seed"]) == (task, seed)
    # It is pretrained once, for all components.
    (weights,) = place.glob("en-*/*")
    assert weights.name == "model-last.bin"
    # What was pretrained is what training begins with.
    for task, seed in runs:
        place = folder / "runs" / task / "spacy_pretrain" / str(seed)
        nlp = spacy.load(place / "model-last")
        (component,) = nlp.pipe_names
        model = nlp.get_pipe(component).model
        (tok2vec,) = (n for n in model.walk() if n.has_ref("embed"))
        trained = [n.get_param("E").copy() for n in tok2vec.walk() if n.has_param("E")]
        tok2vec.from_bytes(weights.read_bytes())
        begun = [n.get_param("E") for n in tok2vec.walk() if n.has_param("E")]
        assert len(begun) == 4
        for a, b in zip(trained, begun):
            assert abs(a - b).max() < 0.005


@pytest.mark.parametrize("is_gold", [True, False])
def test_corpus_is_read_once_and_stays_as_it_is(tmp_path, is_gold):
    path = tmp_path / "train.spacy"
    annotated(path)
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger")
    wanted = list(Corpus(path, gold_preproc=is_gold, limit=7)(nlp))
    corpus = kept_corpus(path, gold_preproc=is_gold, limit=7)
    nlp.initialize(lambda: corpus(nlp))
    nlp.evaluate(list(corpus(nlp)))
    nlp.update(list(corpus(nlp)))
    again = list(corpus(nlp))
    assert all(a is b for a, b in zip(again, corpus(nlp)))
    assert [e.to_dict() for e in again] == [e.to_dict() for e in wanted]
    assert not any(e.predicted.has_annotation("TAG") for e in again)
    # Docs belong to the vocabulary of their pipeline.
    other = spacy.blank("en")
    assert {id(e.x.vocab) for e in corpus(other)} == {id(other.vocab)}


def test_cells_of_tables():
    report = experiments_report
    assert report.cell([]) == ""
    assert report.cell([0.5]) == "50.00 (1 seed)"
    assert report.cell([0.5, 0.6, 0.7]) == "60.00 ± 10.00"
    assert report.errors_saved([0.9, 0.9], [0.95]) == "+50.0%"
    assert report.errors_saved([0.9], [0.88]) == "-20.0%"
    history = [
        {"step": n, "epoch": n // 10, "score": s}
        for n, s in ((10, 0.4), (20, 0.6), (40, 0.5))
    ]
    better = [{**row, "score": s} for row, s in zip(history, (0.7, 0.8, 0.9))]
    found = {
        ("a", "baseline"): [{"seed": 1, "seconds": 100, "history": history}],
        ("a", "elmo"): [{"seed": 1, "seconds": 200, "history": better}],
    }
    there = ("a", "20 (50%, 50)", "10 (25%, 50)")
    assert report.reaching_table(found, ["a"])[1] == there
    assert report.errors_saved([0.7, 0.8], [0.79, 0.8]) == (
        "+18.0% (no more than seeds differ)"
    )


def test_words_read_are_those_of_spacys_batches():
    nlp = spacy.blank("en")
    config = spacy.util.load_config_from_str(make_config(["tagger"], places=[]))
    batcher = registry.resolve(config["training"])["batcher"]
    rng = np.random.default_rng(0)
    docs = [Doc(nlp.vocab, words=["a"] * n) for n in rng.integers(1, 40, size=4000)]
    examples = [Example(doc, doc) for doc in docs]
    batches = create_train_batches(nlp, lambda _: examples, batcher, 0)
    read = np.cumsum([sum(map(len, b)) for _, (_, b) in zip(range(2500), batches)])
    words_read = experiments_report.words_read
    for updates in (200, 510, 1000, 2000):
        share = words_read(updates) / words_read(2500)
        assert abs(read[updates - 1] / read[-1] - share) < 0.01


def test_tables_show_what_was_run():
    found = defaultdict(list)
    for setup, score in (("baseline", 0.8), ("elmo", 0.9), ("elmo 10%", 0.7)):
        found["wnut17", setup].append({"score": score})
    header, row = experiments_report.main_table(found, ["wnut17"])
    assert header == ["", "without ELMo", "with ELMo", "errors saved"]
    assert row[2:] == ["90.00 (1 seed)", "+50.0%"]
    found["wnut17", "spacy pretrain"].append({"score": 0.75})
    header, row = experiments_report.main_table(found, ["wnut17"])
    assert header[2] == "spacy pretrain" and row[3] == "-25.0%"
    header, row = experiments_report.shares_table(found, ["wnut17"])
    assert header[3] == "10 %" and row[0] == "wnut17, elmo"
    assert row[1:] == ("", "", "70.00 (1 seed)", "", "90.00 (1 seed)")


def test_probe_finds_what_is_in_a_layer(tmp_path):
    """Tags that follow the word are found by the most frequent one and by the token
    layer; tags that follow the word before it only where there is context."""
    sizes = {"hidden_dim": 64, "projection_dim": 32}
    clips = {"cell_clip": None, "proj_clip": None}
    bilm = BiLM.random(tiny_config(**sizes, **clips), seed=1)
    rng = np.random.default_rng(0)
    vocab = spacy.blank("xx").vocab
    for name, by_neighbour in (("own", False), ("context", True)):
        folder = tmp_path / name
        folder.mkdir()
        for part, n in (("train", 300), ("dev", 40), ("test", 40)):
            docs = []
            for _ in range(n):
                words = rng.choice(["red", "blue", "green"], size=6).tolist()
                tags = ["first", *words[:-1]] if by_neighbour else words
                docs.append(Doc(vocab, words=words, tags=tags))
            DocBin(docs=docs).to_disk(folder / f"{part}.spacy")
    found = {}
    for name in ("own", "context"):
        parts = {
            part: probe.read(tmp_path / name / f"{part}.spacy")
            for part in ("train", "dev", "test")
        }
        found[name] = [probe.most_frequent(parts["train"], parts["test"])]
        found[name] += [probe.probe(bilm, parts, layer) for layer in (0, 1)]
    assert found["own"][:2] == [1.0, 1.0]
    assert found["context"][2] > max(found["context"][:2]) + 0.1


def test_products_by_numpy_are_the_same_and_not_kept():
    before = get_current_ops()
    model = Linear(30, 20)
    model.initialize()
    X = np.random.default_rng(0).normal(size=(50, 20)).astype("f")
    with by_numpy():
        other = Linear(30, 20)
        other.from_bytes(model.to_bytes())
        assert other.ops is not before and not other.ops.use_blis
    assert get_current_ops() is before
    np.testing.assert_allclose(other.predict(X), model.predict(X), rtol=1e-4, atol=1e-5)
    with by_numpy(gpu=0):
        assert get_current_ops() is before
