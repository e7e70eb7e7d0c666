"""Every message a user can meet has a code, is raised somewhere and has a test."""

import re
from pathlib import Path

import pytest

from spacy_elmo.errors import Errors, Warnings

ROOT = Path(__file__).parents[1]
CODES = [
    (table.__name__, code)
    for table in (Errors, Warnings)
    for code in vars(table)
    if code.startswith("EL")
]


def read(*folders):
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return "".join(p.read_text("utf-8") for p in paths if p.name != "errors.py")


@pytest.fixture(scope="module")
def source():
    return read("spacy_elmo", "benchmarks", "experiments")


@pytest.fixture(scope="module")
def tests():
    return read("tests")


def test_codes_are_distinct():
    text = (ROOT / "spacy_elmo" / "errors.py").read_text(encoding="utf-8")
    codes = re.findall(r"^    (EL\w+) = ", text, re.MULTILINE)
    assert len(codes) > 40 and sorted(codes) == sorted(code for _, code in CODES)
    for table, code in CODES:
        message = getattr({"Errors": Errors, "Warnings": Warnings}[table], code)
        assert message.startswith(f"[{code}] ")


@pytest.mark.parametrize(("table", "code"), CODES)
def test_every_message_is_raised_and_tested(table, code, source, tests):
    assert f"{table}.{code}" in source, f"{code} is never raised"
    assert code in tests, f"{code} is not provoked by any test"
