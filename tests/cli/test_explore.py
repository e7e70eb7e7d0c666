"""spacy elmo explore, as a user runs it."""

import json

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


def test_a_table_shows_control_characters_by_their_numbers(model, tmp_path):
    """Text of a stranger can't write to the terminal, nor break a row."""
    text, table = tmp_path / "text.jsonl", tmp_path / "table.md"
    rows = [["the", "bank", "\x1b[2J", "a\nb"], ["a", "bank", "\x9b", "\u202e"]]
    text.write_text("\n".join(json.dumps({"tokens": row}) for row in rows))
    asked = ["explore", "word", model / "with", text, "--word", "bank"]
    said = run(*asked, "-o", table)
    assert all(char not in said for char in ["\x1b[2J", "\x9b", "\u202e"])
    assert "‹U+001B›[2J a‹U+000A›b" in said
    lines = table.read_text("utf-8").strip().split("\n")
    assert [line.count("|") for line in lines[2:]] == [4] * 4
    found = json.loads(run(*asked, "--json"))
    assert found[0]["context"] == "the [bank] \x1b[2J a\nb"


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
