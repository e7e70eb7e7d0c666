"""Runs are made once, resumed, and leave configurations of spaCy's own names."""

import json
from collections import defaultdict
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import spacy
from spacy.util import load_config_from_str, registry

from experiments import figures, report, speeds, train
from experiments.scores import METRICS, read
from experiments.small_transformer import PACKAGE
from experiments.table import Experiment, Setup, find_setup, find_task, read_table
from experiments.train import Run, make
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.pipeline import learned_mixes

from ..cli.test_spacy_commands import annotated
from ..models import tiny_config

STEPS = 8
BUDGET = Experiment("some", steps=STEPS, runs=[])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experiments")
    for corpus in ("ewt-pos", "ewt-ner"):
        (folder / "corpus" / corpus).mkdir(parents=True)
        for part in ("train", "dev", "test"):
            annotated(folder / "corpus" / corpus / f"{part}.spacy")
    BiLM.random(tiny_config(), seed=1).save(folder / "bilm")
    return folder


def run_of(folder, task, setup, seed=0, experiment=BUDGET):
    setup = setup if isinstance(setup, Setup) else find_setup(setup)
    places = (folder / "runs", folder / "corpus", str(folder / "bilm"))
    return Run(experiment, find_task(task), setup, seed, *places)


@pytest.mark.slow
def test_runs_are_made_once_and_reported(folder, monkeypatch, capsys):
    setups = ["baseline", "elmo", "average", "baseline 10%", "elmo 10%"]
    found = {s: make(run_of(folder, "ewt-xpos", s)) for s in setups}
    for setup, metrics in found.items():
        assert 0 <= metrics["score"] <= 1 and metrics["setup"] == setup
        assert [row["step"] for row in metrics["history"]] == list(range(STEPS + 1))
    few = replace(BUDGET, name="few", evaluations=2)
    metrics = make(run_of(folder, "ewt-ner", "baseline", experiment=few))
    assert [row["step"] for row in metrics["history"]] == [0, STEPS // 2, STEPS]
    # The same command again trains nothing; a run that was interrupted is made anew.
    monkeypatch.setattr(train, "fit", None)
    assert make(run_of(folder, "ewt-xpos", "elmo")) == found["elmo"]
    path = run_of(folder, "ewt-xpos", "average").folder / "metrics.json"
    path.rename(path.with_suffix(".kept"))
    with pytest.raises(TypeError):
        make(run_of(folder, "ewt-xpos", "average"))
    monkeypatch.undo()
    make(run_of(folder, "ewt-xpos", "average"))
    longer = run_of(
        folder, "ewt-xpos", "baseline", experiment=replace(BUDGET, steps=STEPS + 1)
    )
    with pytest.raises(ValueError, match=r"baseline/0.*was made with other settings"):
        make(longer)
    assert make(longer, overwrite=True)["history"][-1]["step"] == STEPS + 1
    make(run_of(folder, "ewt-xpos", "baseline"), overwrite=True)
    BiLM.random(tiny_config(), seed=2).save(folder / "bilm")  # another one
    with pytest.raises(ValueError, match="--force"):
        make(run_of(folder, "ewt-xpos", "elmo"))
    check_report(folder, found, metrics)


def check_report(folder, found, few):
    layers = folder / "layers"
    layers.mkdir()
    scores = {"without": 0.5, "layers": [0.25, 0.5, 0.75]}
    (layers / "some_probe.json").write_text(json.dumps(scores))
    (layers / "word_in_context.json").write_text(json.dumps({"pairs": 2}))
    contexts = folder / "neighbours.md"
    contexts.write_text("**눈** (4 contexts)", encoding="utf-8")
    places = folder / "report", folder / "runs", layers, contexts
    report.main(["some", "few", "nothing"], *places, plots=True, dev=False)
    text = (folder / "report" / "report.md").read_text(encoding="utf-8")
    for metrics in (found["elmo"], found["elmo 10%"]):
        assert f"{100 * metrics['score']:.2f} (1 seed)" in text
    assert "**눈** (4 contexts)" in text and "## nothing" not in text
    best = max(row["score"] for row in found["elmo"]["history"])
    report.main(["some"], folder / "dev", folder / "runs", None, None, False, dev=True)
    developed = (folder / "dev" / "report.md").read_text(encoding="utf-8")
    assert f"{100 * best:.2f} (1 seed)" in developed and "dev sets" in developed
    assert text.count(f"{STEPS} updates a run") == 2
    assert f"{100 * few['score']:.2f} (1 seed)" in text.partition("## few")[2]
    assert "| some probe | 50.00 | 25.00 | 50.00 | 75.00 |" in text
    for plot in ("some_learning.png", "some_shares.png", "some_mixes.png"):
        assert plot in text
        assert (folder / "report" / plot).read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(SystemExit):
        report.main(["nothing"], *places, plots=False, dev=False)


@pytest.mark.slow
def test_every_setup_trains(folder):
    once = replace(BUDGET, name="once", steps=1, evaluations=1)
    text = folder / "corpus" / "text.txt"
    text.write_text("She likes London now. He runs to the river.\n" * 5)
    nlp = spacy.blank("en")
    nlp.vocab.set_vector("London", np.ones(4, np.float32))
    nlp.to_disk(folder / "vectors")
    names = {name for name in read_table()["setups"] if "%" not in name}
    if find_spec("transformers") is None or find_spec(PACKAGE) is None:
        names.remove("minilm")
    for name in names:
        setup = replace(find_setup(name), weights=None)
        if setup.pretrain_on:
            setup = replace(setup, pretrain_on=text.name)
        if "static" in setup.config:
            static = {**setup.config, "static": str(folder / "vectors")}
            setup = replace(setup, config=static)
        run = run_of(folder, "ewt-xpos", setup, experiment=once)
        assert 0 <= make(run)["score"] <= 1
        nlp = spacy.load(run.folder / "model-best")
        mixes = learned_mixes(nlp) if nlp.has_pipe("elmo") else []
        assert len(mixes) == len(setup.config.get("places", ["input"]))
        dropout = nlp.config["training"]["dropout"]
        assert dropout == setup.settings.get("training.dropout", 0.1)
        wanted = setup.config.get("listener", {}).get("mix", "learned")
        assert {mix.kind for mix in mixes} <= {wanted}
        if mixes:
            assert nlp.get_pipe("elmo").frozen is setup.config.get("frozen", True)
        # Another process, without this repository, can train from what was saved.
        for kind in ("readers", "callbacks"):
            for used in named(nlp.config, f"@{kind}"):
                own = used.startswith("spacy-elmo.") and used not in LASTING
                assert not own and registry.has(kind, used), used
    found = read(folder / "runs" / "once")
    assert len(found) == len(names)


def test_other_vectors_stand_in_elmos_place(folder):
    config = load_config_from_str(run_of(folder, "ewt-ner", "minilm").config())
    ours = load_config_from_str(run_of(folder, "ewt-ner", "elmo").config())
    assert config["nlp"]["pipeline"] == ["ner"]
    assert config["components"]["ner"]["model"]["tok2vec"].pop("elmo") == {
        "@architectures": "experiments.MiniLM.v1"
    }
    del ours["components"]["ner"]["model"]["tok2vec"]["elmo"]
    assert config["components"] == {"ner": ours["components"]["ner"]}
    assert config["training"] == ours["training"]


def test_runs_of_different_settings_are_not_averaged(folder, capsys):
    run = run_of(folder, "ewt-ner", "elmo")
    assert run.recipe() == replace(run, seed=5).recipe()
    assert run.recipe() != run_of(folder, "ewt-ner", "average").recipe()
    for seed, recipe in enumerate("aab"):
        metrics = {"task": "ewt-ner", "setup": "elmo", "score": 0.5, "recipe": recipe}
        path = folder / "mixed" / "x" / "ewt-ner" / "elmo" / str(seed) / METRICS
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(metrics))
    with pytest.raises(ValueError, match="elmo' were made with different settings"):
        read(folder / "mixed" / "x")
    with pytest.raises(SystemExit):
        report.main(
            ["x"], folder / "no", folder / "mixed", None, None, plots=False, dev=False
        )
    assert "--force" in capsys.readouterr().out


def test_runs_are_skipped_whose_files_are_missing(folder, monkeypatch, capsys):
    monkeypatch.setattr(train, "make", lambda run, **_: {"score": 1.0, "seconds": 1})
    places = folder / "skipping", folder / "corpus"
    settings = {"seeds": 1, "steps": 1, "weights": "", "gpu": -1}
    every = {**settings, "task": [], "setup": []}
    train.main(["quick"], *places, **every)
    told = " ".join(capsys.readouterr().out.split())
    assert told.count("100.00% on the test set") == 2  # ewt-xpos
    assert told.count("Skipped, since there is no") == 2  # wnut17
    assert "2 of 4 runs were skipped" in told
    with pytest.raises(SystemExit):
        train.main(["quick"], places[0], folder / "no", **every)
    capsys.readouterr()
    train.main(["quick"], *places, **settings, task=["ewt-xpos"], setup=["elmo"])
    assert capsys.readouterr().out.count("100.00% on the test set") == 1
    for wrong in ({"task": ["ewt"]}, {"setup": ["elmos"]}):
        with pytest.raises(SystemExit):
            train.main(["quick"], *places, **{**every, **wrong})
        assert "is none of the" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        train.main(["quik"], *places, **every)
    monkeypatch.setattr(train.small_transformer, "PACKAGES", ("not_installed",))
    assert run_of(folder, "ewt-xpos", "minilm").missing() == "not_installed"
    domain = run_of(folder, "ewt-xpos", replace(find_setup("elmo"), weights="none"))
    assert str(domain.missing()) == "none"
    adapted = run_of(folder, "ewt-xpos", "adapted and fine-tuned")
    assert "ewt-pos" in str(adapted.missing())
    static = {"static": str(folder / "unfinished")}
    (folder / "unfinished").mkdir()
    floret = run_of(folder, "ewt-xpos", replace(find_setup("elmo"), config=static))
    assert floret.missing() == folder / "unfinished" / "vocab" / "vectors"
    shipped = replace(find_setup("elmo"), weights="en_elmo_sm")
    assert run_of(folder, "ewt-xpos", shipped).missing() is None


@pytest.mark.slow
def test_speeds_of_pipelines(folder, tmp_path, capsys):
    written = tmp_path / "speeds.json"
    speeds.main("ewt-xpos", ["baseline", "elmo"], folder / "corpus", 1, written)
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines()[2:]]
    for name, row in zip(("baseline", "elmo"), rows, strict=True):
        assert row[1].strip() == name
        assert float(row[2].replace(",", "")) > 0 and float(row[3]) > 0
    assert float(rows[1][3]) > float(rows[0][3]) + 10  # the biLM that ships
    found = {("ewt-xpos", name): [{"score": 0.9}] for name in ("baseline", "elmo")}
    found = defaultdict(list, found)
    assert not figures.draw_speeds(found, ["ewt-ner"], tmp_path, tmp_path / "no.png")
    assert figures.draw_speeds(found, ["ewt-xpos"], tmp_path, tmp_path / "some.png")
    assert (tmp_path / "some.png").stat().st_size > 5000


WEIGHTS = "spacy-elmo.WeightsReader.v1"
LASTING = WEIGHTS, "spacy-elmo.Unfreeze.v1"  # of a saved configuration


def named(block, key):
    for name, value in block.items():
        if name == key:
            yield value
        elif isinstance(value, dict):
            yield from named(value, key)


@pytest.mark.slow
def test_pretrained_by_spacy(folder):
    text = folder / "corpus" / "lines.txt"
    text.write_text("She likes London now. He runs to the river.\n" * 30)
    setup = replace(find_setup("spacy pretrain"), pretrain_on=text.name)
    once = replace(BUDGET, name="pretrained", steps=1)
    runs = [
        run_of(folder, task, setup, seed, once)
        for task, seed in (("ewt-xpos", 0), ("ewt-xpos", 1), ("ewt-ner", 0))
    ]
    for run in runs:
        assert make(run)["seed"] == run.seed
    # It is pretrained once, for all components.
    (weights,) = (
        path
        for path in (folder / "runs" / "spacy_pretrain").glob("en-*/*")
        if path.stat().st_mtime > text.stat().st_mtime
    )
    assert weights.name == "model-last.bin"
    # What was pretrained is what training begins with.
    for run in runs:
        nlp = spacy.load(run.folder / "model-last")
        (component,) = nlp.pipe_names
        model = nlp.get_pipe(component).model
        (tok2vec,) = (n for n in model.walk() if n.has_ref("embed"))
        trained = [n.get_param("E").copy() for n in tok2vec.walk() if n.has_param("E")]
        tok2vec.from_bytes(weights.read_bytes())
        begun = [n.get_param("E") for n in tok2vec.walk() if n.has_param("E")]
        assert len(begun) == 4
        for a, b in zip(trained, begun):
            assert abs(a - b).max() < 0.005
