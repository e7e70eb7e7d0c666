"""Corpora as they are published become Docs, and the table of experiments holds."""

import subprocess
import sys
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin

from experiments import corpora
from experiments.corpora import read_docs
from experiments.table import PARTS, find_experiment, find_setup, read_table


def test_universal_ner(tmp_path):
    path = tmp_path / "a.iob2"
    path.write_text(
        "# text\n1\tNew\tB-LOC\t-\t-\n2\tYork\tI-LOC\t-\t-\n\n\n1\tyes\tO\t-\t-\n"
    )
    city, yes = read_docs(path)
    assert [(e.text, e.label_) for e in city.ents] == [("New York", "LOC")]
    assert yes.text.strip() == "yes" and not yes.ents
    with pytest.raises(ValueError, match="not a"):
        read_docs(Path(__file__))


def test_two_columns(tmp_path):
    path = tmp_path / "some.conll"
    lines = ["Kim\tB-PER", "saw\tO", "New\tB-LOC", "York\tI-LOC", "\t", "It\tO", ""]
    path.write_text("\n".join(lines), encoding="utf-8")
    first, second = read_docs(path)
    assert [e.text for e in first.ents] == ["Kim", "New York"]
    assert [t.text for t in second] == ["It"] and not second.ents


NEWSPAPER = """\
# file: F_1
Zu O
Gries B-LOC
bei O
Bozen B-LOC
. O
Herr O
L a O
worden
Andreas I-PER
Hofer I-PER
Tirol I-LOC
"""


def test_newspapers(tmp_path):
    """Words with spaces in them and lines without a tag are there; a tag may begin with
    I."""
    path = tmp_path / "some.bio"
    path.write_text(NEWSPAPER, encoding="utf-8")
    first, second = read_docs(path)
    assert [t.text for t in first] == ["Zu", "Gries", "bei", "Bozen", "."]
    found = [(e.text, e.label_) for doc in (first, second) for e in doc.ents]
    persons = [("Andreas Hofer", "PER"), ("Tirol", "LOC")]
    assert found == [("Gries", "LOC"), ("Bozen", "LOC"), *persons]
    assert [t.text for t in second][:2] == ["Herr", "L a"]


def test_a_sentence_of_a_newspaper_has_a_longest_length(tmp_path):
    path = tmp_path / "some.bio"
    path.write_text("und O\n" * 150, encoding="utf-8")
    assert [len(doc) for doc in read_docs(path)] == [60, 60, 30]


def test_words_are_as_they_are_written(tmp_path):
    rows = (
        "1-2 Zum _ _ _ _ _ _ _ _",
        "1 Zu zu ADP APPR _ 3 case _ _",
        "2 dem der DET ART _ 3 det _ _",
        "3 Glück Glück NOUN NN _ 0 root _ _",
    )
    path = tmp_path / "some.conllu"
    path.write_text("\n".join("\t".join(row.split()) for row in rows) + "\n\n")
    (doc,) = read_docs(path, as_written=True)
    assert [(t.text, t.pos_, t.head.text) for t in doc] == [
        ("Zum", "ADP", "Glück"),
        ("Glück", "NOUN", "Glück"),
    ]
    (doc,) = read_docs(path)
    assert [t.text for t in doc] == ["Zu", "dem", "Glück"]


@pytest.mark.slow
def test_a_file_can_hold_all_parts(tmp_path):
    path = tmp_path / "enp_FR.bnf.bio"
    path.write_text("".join(f"{n} O\n. O\n" for n in range(40)), encoding="utf-8")
    corpora.main(tmp_path)
    found = {}
    for part in PARTS:
        docs = DocBin().from_disk(tmp_path / "fr-europeana" / f"{part}.spacy")
        docs = docs.get_docs(spacy.blank("fr").vocab)
        found[part] = [int(doc[0].text) for doc in docs]
    assert found["test"] == [36, 37, 38, 39] and found["dev"] == [0, 10, 20, 30]
    assert sorted(n for numbers in found.values() for n in numbers) == list(range(40))


def test_categories_of_texts(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text('text,category\n"Where is\nmy card?",card\nA fee?,fee\n')
    first, second = read_docs(path)
    assert first.text == "Where is\nmy card?"
    assert first.cats == {"card": 1.0, "fee": 0.0}
    assert second.cats == {"card": 0.0, "fee": 1.0}


def test_every_tenth_sentence_is_devs_where_one_file_holds_both(tmp_path):
    rows = [f"text {number},category" for number in range(25)]
    for part in ("train", "test"):
        path = tmp_path / "banking77" / f"{part}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(["text,category", *rows]))
    corpora.main(tmp_path)
    found = {}
    for part in PARTS:
        docs = DocBin().from_disk(tmp_path / "banking77" / f"{part}.spacy")
        docs = docs.get_docs(spacy.blank("en").vocab)
        found[part] = [int(doc[1].text) for doc in docs]
    assert found["dev"] == [0, 10, 20] and found["test"] == list(range(25))
    assert found["train"] == [n for n in range(25) if n % 10]


def test_a_folder_is_converted_and_what_is_missing_is_said(tmp_path, capsys):
    columns = ["1", "Kim", "Kim", "PROPN", "NNP", "_", "0", "root", "_", "_"]
    for part in PARTS:
        path = tmp_path / f"en_ewt-ud-{part}.conllu"
        path.write_text("\t".join(columns) + "\n\n", encoding="utf-8")
    corpora.main(tmp_path)
    for name, tag in (("ewt-pos", "NNP"), ("ewt-upos", "PROPN")):
        for part in PARTS:
            docs = DocBin().from_disk(tmp_path / name / f"{part}.spacy")
            docs = docs.get_docs(spacy.blank("en").vocab)
            assert [t.tag_ for doc in docs for t in doc] == [tag]
    assert not (tmp_path / "wnut17").exists()
    assert "wnut17 is left out" in capsys.readouterr().out


def test_a_folder_without_files_is_an_error(tmp_path, capsys):
    """So a workflow does not count it as done."""
    with pytest.raises(SystemExit):
        corpora.main(tmp_path)
    said = " ".join(capsys.readouterr().out.split())  # lines are wrapped
    assert "the files of no corpus" in said


@pytest.mark.slow
def test_modules_run_from_the_folder_of_the_project(tmp_path):
    command = [sys.executable, ".", "corpora", tmp_path]
    folder = Path(corpora.__file__).parent
    places = {"cwd": folder, "capture_output": True, "text": True}
    done = subprocess.run(command, check=False, **places)
    assert "wnut17 is left out" in done.stdout
    for wrong in ([], ["corporas"]):
        command = [sys.executable, ".", *wrong]
        done = subprocess.run(command, check=False, **places)
        assert done.returncode == 1 and "usage: python . NAME" in done.stderr
        assert "Traceback" not in done.stderr


def test_the_table_names_only_what_it_has():
    table = read_table()
    for name in table["experiments"]:
        experiment = find_experiment(name)
        pairs = list(experiment.pairs())
        assert len(pairs) == len({(t.name, s.name) for t, s in pairs}) > 0
        for task, _ in pairs:
            assert task.corpus in {*table["corpora"], "demo"}
    for setups in table["tables"].values():
        assert all(find_setup(name) for name in setups)
    for name, row in table["corpora"].items():
        assert set(row) - {"universal_tags", "as_written"} == set(PARTS), name
    with pytest.raises(ValueError, match="'big' is none of the experiments"):
        find_experiment("big")
