"""The entry for spaCy's universe (docs/universe.json) is as it wants one, and runs."""

import json

from ..project import DOCUMENTATION, PROJECT, ROOT, URLS, in_repository
from .pages import Block, run_python

PATH = ROOT / "docs" / "universe.json"
ENTRY = json.loads(PATH.read_text(encoding="utf-8"))
CATEGORIES = {"pipeline", "training", "models", "standalone", "research", "extension"}


def test_the_example_runs_as_printed():
    text = "\n".join(ENTRY["code_example"])
    assert len(ENTRY["code_example"]) < 15
    namespace = {}
    run_python(Block(PATH, 1, "python", text, "", ""), namespace)
    assert namespace["nlp"].pipe_names == ["sentencizer", "elmo"]


def test_it_says_what_the_metadata_says():
    assert ENTRY["id"] == ENTRY["pip"] == PROJECT["name"]
    assert f"https://github.com/{ENTRY['github']}" == URLS["Source"]
    assert f"{ENTRY['url']}/" == DOCUMENTATION
    assert ENTRY["author"] == PROJECT["authors"][0]["name"]
    assert in_repository(ENTRY["thumb"]).exists()
    assert set(ENTRY["category"]) <= CATEGORIES and ENTRY["code_language"] == "python"
    assert len(ENTRY["slogan"]) < 80
