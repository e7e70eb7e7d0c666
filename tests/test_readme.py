"""What the README names is there; tests/docs runs its blocks."""

import re
from decimal import Decimal
from pathlib import Path

from .project import BLOB, DOCUMENTATION, RAW, TREE, in_repository

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINKS = re.findall(r"\]\(([^)]+)\)", README)


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


# Rows of the table and those of the results that they are of, and so columns.
SETUPS = {
    "hash embeddings (spaCy's `HashEmbedCNN`)": "without ELMo",
    "ELMo, frozen": "ELMo, frozen",
    "ELMo, frozen, and vectors of words, as `init-config` writes it": (
        "ELMo, frozen, and vectors of words"
    ),
    "ELMo, fine-tuned": "ELMo, fine-tuned",
    "a small transformer (MiniLM-L6, frozen)": "MiniLM, frozen",
}
COLUMNS = {
    "EWT tags (XPOS), accuracy in %": "EWT XPOS, accuracy",
    "EWT-NER, F1 in %": "EWT-NER, F1",
    "words/s of the tagger": "words/s",
    "MB on disk": "MB",
}


def table_of(text, *columns):
    """Return the rows of the table that has these columns, by their first cells."""
    for table in re.findall(r"((?:^\|.*\n)+)", text, re.MULTILINE):
        head, _, *rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in table.splitlines()
        ]
        if set(columns) <= set(head):
            return {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    raise AssertionError(columns)


def test_figures_are_those_of_the_results():
    """Rounded to the digits that are shown."""
    page = (ROOT / "docs" / "guides" / "results.md").read_text(encoding="utf-8")
    shown, results = table_of(README, *COLUMNS), table_of(page, *COLUMNS.values())
    assert shown.keys() == SETUPS.keys()
    for name, setup in SETUPS.items():
        for column, measured in COLUMNS.items():
            found = shown[name][column]
            mean = results[setup][measured].partition(" ±")[0]
            if mean[0].isdigit():
                digits = len(found.partition(".")[2])
                mean = f"{Decimal(mean.replace(',', '')):,.{digits}f}"
            assert found == mean, (name, column)
