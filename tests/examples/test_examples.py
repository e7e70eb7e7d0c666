"""The examples run offline, and find what they say."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, *arguments):
    """Return what an example prints."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(text):
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


@pytest.mark.slow
@pytest.mark.parametrize("word", ["bank", "play"])
def test_senses_are_told_apart(word):
    found = re.search(r"(\d) of 6 contexts", run("word_senses", "--word", word))
    assert int(found[1]) >= 5


@pytest.mark.slow
def test_search_finds_the_same_sense_first():
    lines = run("search", "-n", "3").splitlines()
    assert "river" in lines[1]
    cosines = [float(line.split()[0]) for line in lines[1:]]
    assert cosines == sorted(cosines, reverse=True)


@pytest.mark.slow
def test_a_korean_tagger_is_better_with_elmo():
    without, with_elmo = numbers(run("korean_tagger").splitlines()[0])
    assert with_elmo > without


@pytest.mark.slow
def test_entities_are_found_better_with_elmo():
    without, with_elmo = numbers(run("ner_with_and_without"))
    assert with_elmo > without


@pytest.mark.slow
def test_a_domain_is_learned():
    before, after = numbers(run("domain", "--steps", "40"))
    assert after < before


def test_all_are_listed():
    listed = re.findall(r"`(\w+)\.py`", (EXAMPLES / "README.md").read_text("utf-8"))
    assert sorted(listed) == sorted(path.stem for path in EXAMPLES.glob("*.py"))


def test_the_notebook_runs_and_prints_what_it_shows(monkeypatch, capsys):
    monkeypatch.chdir(EXAMPLES)
    notebook = json.loads((EXAMPLES / "tour.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    namespace = {"__name__": "notebook"}
    for cell in cells:
        exec("".join(cell["source"]), namespace)
        streams = [o for o in cell["outputs"] if o["output_type"] == "stream"]
        shown = "".join(line for o in streams for line in o["text"])
        assert capsys.readouterr().out == shown
    assert len(cells) > 5
