"""The README is short, and what it names is there; tests/docs runs its blocks."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_read_in_ten_minutes():
    assert len(README.splitlines()) <= 120


def test_what_it_links_to_is_there():
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) > 10
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_it_has_a_picture():
    (picture,) = re.findall(r"!\[.+\]\(([^)]+)\)", README)
    assert (ROOT / picture).stat().st_size > 1000


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
