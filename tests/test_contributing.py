"""What CONTRIBUTING.md points to is there."""

import re
from pathlib import Path

import catalogue
import pytest

from spacy_elmo import registry

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.startswith("| a")
]


def test_every_path_is_there():
    paths = re.findall(r"\]\(([^)]+)\)|`([\w/]+\.\w+)`", TEXT)
    named = {a or b for a, b in paths}
    assert len(named) > 12
    for path in named:
        bases = (
            ROOT,
            ROOT / "spacy_elmo",
            ROOT / "spacy_elmo" / "bilm",
            ROOT / "tests",
        )
        assert any((base / path).exists() for base in bases), path


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_kind_has_a_file_to_follow_and_tests(row):
    _, _, follow, command = row
    for path in re.findall(r"`([^`]+)`", follow):
        assert (ROOT / path).exists(), path
    program, *paths = re.search("`([^`]+)`", command)[1].split()
    assert program == "pytest" and paths
    for path in paths:
        assert (ROOT / path).exists(), path


def test_every_registry_that_others_can_extend_is_named():
    """All but the loggers, which are spaCy's."""
    registries = {
        name: each
        for name, each in vars(registry.registry).items()
        if isinstance(each, catalogue.Registry)
    }
    ours = {
        name
        for name, each in registries.items()
        if each.namespace[0] == registry.NAMESPACE
    }
    assert {"objectives", "sinks"} <= ours == registries.keys() - {"loggers"}
    assert ours == set(re.findall(r"@registry\.(\w+)", TEXT))


def test_every_folder_of_the_package_is_described():
    folders = {
        p.name
        for p in (ROOT / "spacy_elmo").iterdir()
        if p.is_dir() and p.name != "__pycache__"
    }
    assert folders == set(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE))
