"""The README is short, and what it names is there; tests/docs runs its blocks."""

import re
from pathlib import Path

from .project import BLOB, DOCUMENTATION, RAW, TREE, in_repository

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINKS = re.findall(r"\]\(([^)]+)\)", README)


def test_it_is_read_in_ten_minutes():
    assert len(README.splitlines()) <= 120


def test_links_are_absolute_as_a_package_index_needs_them():
    assert len(LINKS) > 10
    for link in LINKS:
        assert link.startswith("https://"), link


def test_what_it_links_to_is_there():
    ours = [link for link in LINKS if "spacy-elmo" in link]
    assert len(ours) > 10
    for start in (BLOB, TREE, RAW, DOCUMENTATION):
        assert any(link.startswith(start) for link in ours), start
    for link in ours:
        assert in_repository(link).exists(), link


def test_it_has_a_picture():
    (picture,) = re.findall(r"!\[.+\]\(([^)]+)\)", README)
    assert in_repository(picture).stat().st_size > 1000


def test_make_targets_are_there():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"(?:^|`)make (\w+)", README, re.MULTILINE)
    assert {"demo", "test", "docs"} <= set(targets)
    for target in targets:
        assert f"\n{target}:" in makefile


def test_figures_are_those_of_the_results():
    results = (ROOT / "docs" / "guides" / "results.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"((?:^\|.*\n)+)", README, re.MULTILINE)
    figures = set(re.findall(r"\d+\.\d\d|\d+,\d+", table))
    assert len(figures) >= 5
    missing = {figure for figure in figures if figure not in results}
    assert not missing
