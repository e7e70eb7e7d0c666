"""Every message a user can meet has a code, is raised somewhere and has a test."""

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from spacy_elmo import BiLM
from spacy_elmo.embed.plan import read_plan
from spacy_elmo.errors import Errors, Warnings

from .models import tiny_config

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


# -- length -----------------------------------------------------------------------

LARGE = "x" * 10**6


def sizes(folder):
    BiLM.random(tiny_config()).save(folder)
    header = json.loads((folder / "config.json").read_text())
    del header["sha256"]
    header["bilm"][LARGE] = 1
    (folder / "config.json").write_text(json.dumps(header))
    BiLM.load(folder)


def arrays(folder):
    BiLM.random(tiny_config()).save(folder)
    arrays = {LARGE: torch.ones(1), **BiLM.random(tiny_config()).state_dict()}
    (folder / "weights.safetensors").write_bytes(save(arrays))
    BiLM.load(folder)


def header(folder):
    BiLM.random(tiny_config()).save(folder)
    found = json.dumps({"a": LARGE}).encode()
    data = len(found).to_bytes(8, "little") + found
    (folder / "weights.safetensors").write_bytes(data)
    BiLM.load(folder)


def plan(folder):
    folder.mkdir()
    (folder / "plan.json").write_text(json.dumps({LARGE: 1}))
    read_plan(folder)


@pytest.mark.filterwarnings("ignore:.*ELW52")
@pytest.mark.parametrize("read", [sizes, arrays, header, plan])
def test_messages_stay_short(read, tmp_path):
    """Whatever a file holds, what is said of it fits a screen."""
    with pytest.raises(ValueError, match=r"^\[EL\d+\]") as caught:
        read(tmp_path / "folder")
    assert len(str(caught.value)) < 3000
