"""spacy elmo explore, as a user runs it."""

import pytest

from ..explore.views import tiny_bilm, tiny_softmax
from ..pipelines import examples, pipeline
from .test_cli import run


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    bilm = tiny_bilm()
    bilm.save(folder / "with", softmax=tiny_softmax(bilm))
    bilm.save(folder / "without")
    return folder


def test_word(model, tmp_path):
    text, page = tmp_path / "text.txt", tmp_path / "page.html"
    text.write_text("We saw the old bank.\nMoney lay in the bank.\n")
    said = run("explore", "word", model / "with", text, "--word", "bank", "-o", page)
    assert "2 contexts" in " ".join(said.split())  # in lines as long as the path
    assert "<title>2 contexts of “bank”" in page.read_text("utf-8")
    assert "with, text.txt" in page.read_text("utf-8")
    table = tmp_path / "senses.tsv"
    table.write_text("river\twe saw the bank\n")
    out = run("explore", "word", model / "with", table, "--word", "bank", "-o", "-")
    assert out.startswith("<!doctype html>") and '"labels":["river"]' in out


def test_sentence(model):
    out = run("explore", "sentence", model / "with", "We saw", "the bank", "-o", "-")
    assert out.startswith("<!doctype html>") and out.endswith("</html>\n")
    assert '"sentences":[["We","saw"],["the","bank"]]' in out
    assert '"surprise":[{"forward":[' in out
    out = run("explore", "sentence", model / "without", "We saw", "--output", "-")
    assert '"sentences":[["We","saw"]]' in out and '"surprise":null' in out
    long = f"See {'x' * 1500} and go"
    out = run("explore", "sentence", model / "without", long, "--output", "-")
    assert '"and","go"]]' in out


def test_mix(tmp_path):
    nlp = pipeline()
    nlp.initialize(lambda: examples(nlp))
    nlp.to_disk(tmp_path / "pipe")
    run("explore", "mix", tmp_path / "pipe", "--output", tmp_path / "page.html")
    assert '"component":"tagger"' in (tmp_path / "page.html").read_text("utf-8")


def test_an_unknown_format_is_refused_wherever_it_is_named(model, tmp_path):
    """Also where nothing is written, so that it would change nothing."""
    (tmp_path / "a.txt").write_text("the bank")
    word = ["explore", "word", model / "with", tmp_path / "a.txt", "--word", "bank"]
    assert "EL073" in run(*word, "--format", "plot", fails=True)
    assert "EL073" in run("explore", "mix", tmp_path, "--format", "table", fails=True)


def test_errors_are_one_message(model, tmp_path):
    out = tmp_path / "page.html"
    (tmp_path / "a.txt").write_text("nothing")
    word = ["explore", "word", model / "with", tmp_path / "a.txt", "-o", out]
    assert "EL084" in run(*word, "--word", "bank", fails=True)
    sentence = ["explore", "sentence", model / "with", " ", "-o", out]
    assert "EL221" in run(*sentence, fails=True)
    assert not out.exists()
