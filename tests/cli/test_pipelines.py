"""Commands that look into a biLM read that of a trained pipeline, as it is there."""

import json
import shutil

import numpy as np
import pytest
import spacy
from spacy.training import Example

from spacy_elmo.bilm import BiLM
from spacy_elmo.embed import make_plan
from spacy_elmo.explore import nearest_contexts, read_contexts, render, sentence_view
from spacy_elmo.pretrain import LanguageModel, perplexity
from spacy_elmo.text import build_corpus

from ..explore.views import VOCAB, tiny_bilm, tiny_softmax
from ..pipelines import TAGGER
from .test_cli import run

LINES = ["We saw the old bank .", "Money lay in the bank .", "A deep river bank ."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A biLM with its softmax, a pipeline in which it was fine-tuned, and a text."""
    folder = tmp_path_factory.mktemp("pipelines")
    bilm = tiny_bilm()
    bilm.save(folder / "bilm", softmax=tiny_softmax(bilm))
    (folder / "text.txt").write_text("\n".join(LINES))
    nlp = spacy.blank("en")
    settings = {"weights": str(folder / "bilm"), "frozen": False}
    settings["learn_rate_factor"] = 10.0
    nlp.add_pipe("elmo", config=settings)
    nlp.add_pipe("tagger", config=TAGGER)
    words = LINES[0].split()
    tags = {"tags": [word[0] for word in words]}
    batch = [Example.from_dict(spacy.tokens.Doc(nlp.vocab, words), tags)]
    optimizer = nlp.initialize(lambda: batch)
    for _ in range(5):
        nlp.update(batch, sgd=optimizer)
    nlp.to_disk(folder / "pipeline")
    return folder


@pytest.fixture(scope="module")
def tuned(folder):
    """The biLM of the pipeline, which is not what it began with."""
    bilm = spacy.load(folder / "pipeline").get_pipe("elmo").bilm
    assert bilm.fingerprint() != BiLM.load(folder / "bilm").fingerprint()
    return bilm


def test_nearest_contexts(folder, tuned):
    asked = [folder / "pipeline", folder / "text.txt", "--word", "bank"]
    rows = json.loads(run("explore", "word", *asked, "--n-contexts", 3, "--json"))
    contexts, _ = read_contexts([folder / "text.txt"], "bank")
    near = nearest_contexts(tuned, contexts, contexts, 3)
    assert [row["context"] for row in rows] == [str(each.context) for each in near]
    expected = [round(float(each.cosine), 3) for each in near]
    assert [row["cosine"] for row in rows] == expected
    shown = run("explore", "word", *asked)
    assert "Nearest words without context" in shown  # of the weights that it names
    page = run("explore", "word", *asked, "-o", "-")
    assert page.startswith("<!doctype html>") and "pipeline, text.txt" in page


def test_sentence(folder, tuned):
    page = run("explore", "sentence", folder / "pipeline", "the bank", "-o", "-")
    softmax = tiny_softmax(tiny_bilm())
    tuned.vocab = VOCAB
    view = sentence_view(tuned, ["the", "bank"], softmax=softmax, about="pipeline")
    assert page == render(view).html


def test_perplexity(folder, tuned):
    asked = ["perplexity", folder / "pipeline", folder / "text.txt", "--json"]
    found = json.loads(run(*asked, "--tokenizer", "whitespace"))
    tuned.vocab = VOCAB
    model = LanguageModel(tuned, tiny_softmax(tiny_bilm())).eval()
    corpus = build_corpus([line.split() for line in LINES], vocab=VOCAB)
    assert found == pytest.approx(perplexity(model, corpus).to_dict(), rel=1e-5)
    before = json.loads(run("perplexity", folder / "bilm", *asked[2:]))
    assert not np.isclose(found["mean"], before["mean"], rtol=1e-3)


def test_a_pipeline_that_is_installed(folder, tmp_path, monkeypatch):
    """It is named as in `spacy.load`: a package, which a folder on the path has."""
    package = tmp_path / "en_tuned"
    shutil.copytree(folder / "pipeline", package / "data")
    (package / "__init__.py").write_text(
        "from pathlib import Path\nfrom spacy.util import load_model_from_path\n"
        "def load(**how):\n"
        "    return load_model_from_path(Path(__file__).parent / 'data', **how)\n"
    )
    (tmp_path / "en_tuned-1.0.dist-info").mkdir()
    metadata = tmp_path / "en_tuned-1.0.dist-info" / "METADATA"
    metadata.write_text("Name: en_tuned\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    rest = [folder / "text.txt", "--json"]
    expected = json.loads(run("perplexity", folder / "pipeline", *rest))
    assert json.loads(run("perplexity", "en_tuned", *rest)) == expected
    asked = [*rest, "--word", "bank"]
    expected = run("explore", "word", folder / "pipeline", *asked)
    assert run("explore", "word", "en_tuned", *asked) == expected
    # A plan of embed keeps the name, and goes on in any working folder.
    plan, _ = make_plan("en_tuned", [str(folder / "text.txt")], tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    encoder = plan.encoder(tmp_path / "out")
    assert encoder.bilm.fingerprint() == plan.fingerprint


def test_a_folder_comes_before_a_package_of_its_name(folder, tmp_path, monkeypatch):
    """As where a plan of `embed` names its model by its path."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder / "bilm", "numpy")
    rest = [folder / "text.txt", "--json"]
    found = run("perplexity", "numpy", *rest)
    assert found == run("perplexity", folder / "bilm", *rest)
    plan, _ = make_plan("numpy", [str(folder / "text.txt")], tmp_path / "out")
    assert plan.fingerprint == BiLM.load(folder / "bilm").fingerprint()
    assert plan.model == str(tmp_path / "numpy")


def test_a_model_with_the_meta_of_nlpl(folder, tmp_path):
    """Its zips have a `meta.json`, as pipelines do."""
    shutil.copytree(folder / "bilm", tmp_path / "212")
    (tmp_path / "212" / "meta.json").write_text('{"id": 212}')
    rest = [folder / "text.txt", "--json"]
    found = run("perplexity", tmp_path / "212", *rest)
    assert found == run("perplexity", folder / "bilm", *rest)
    plan, _ = make_plan(tmp_path / "212", [str(rest[0])], tmp_path / "out")
    assert plan.fingerprint == BiLM.load(folder / "bilm").fingerprint()


def test_a_bilm_whose_package_has_its_name(folder, tmp_path, monkeypatch):
    """It is no pipeline that spaCy could load."""
    shutil.copytree(folder / "bilm", tmp_path / "sv_elmo_lg")
    about = tmp_path / "sv_elmo_lg-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: sv_elmo_lg\nVersion: 1\n")
    entry = "[spacy_elmo_models]\nsv_elmo_lg = sv_elmo_lg\n"
    (about / "entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(tmp_path)
    rest = [folder / "text.txt", "--json"]
    found = run("perplexity", "sv_elmo_lg", *rest)
    assert found == run("perplexity", folder / "bilm", *rest)
    plan, _ = make_plan("sv_elmo_lg", [str(rest[0])], tmp_path / "out")
    assert plan.fingerprint == BiLM.load(folder / "bilm").fingerprint()


def test_the_elmo_of_several_that_sets_the_tensor(folder, tmp_path):
    """As `embed` reads with: commands agree on the biLM of a pipeline."""
    nlp = spacy.blank("en")
    for name, sets in (("first", False), ("second", True), ("third", False)):
        bilm = BiLM.random(tiny_bilm().config, seed=len(name), vocab=VOCAB)
        bilm.save(tmp_path / name, softmax=tiny_softmax(bilm))
        settings = {"weights": str(tmp_path / name), "set_tensor": sets}
        nlp.add_pipe("elmo", name=name, config=settings)
    nlp.to_disk(tmp_path / "pipeline")
    found = [
        run("perplexity", tmp_path / name, folder / "text.txt", "--json")
        for name in ("pipeline", "second", "first")
    ]
    assert found[0] == found[1] != found[2]


def test_weights_that_are_not_there_any_more(folder, tmp_path):
    shutil.copytree(folder / "pipeline", tmp_path / "pipeline")
    config = tmp_path / "pipeline" / "config.cfg"
    text = config.read_text(encoding="utf-8")
    assert str(folder / "bilm") in text
    config.write_text(text.replace(str(folder / "bilm"), str(tmp_path / "nowhere")))
    asked = [tmp_path / "pipeline", folder / "text.txt"]
    assert "EL036" in run("perplexity", *asked, fails=True)
    assert "[bank]" in run("explore", "word", *asked, "--word", "bank")


def test_a_pipeline_without_elmo(folder, tmp_path):
    spacy.blank("en").to_disk(tmp_path / "blank")
    asked = [tmp_path / "blank", folder / "text.txt"]
    assert "EL215" in run("perplexity", *asked, fails=True)
    assert "EL215" in run("benchmark", *asked, fails=True)
