"""Every message that a user can meet has its code, and fits a screen."""

import json

import pytest
import torch
from safetensors.torch import save

from spacy_elmo import BiLM
from spacy_elmo.embed.plan import read_plan
from spacy_elmo.errors import Errors, Warnings

from .models import tiny_config

CODES = [
    (table, code)
    for table in (Errors, Warnings)
    for code in vars(table)
    if code.startswith("EL")
]


@pytest.mark.parametrize(("table", "code"), CODES)
def test_messages_begin_with_their_codes(table, code):
    assert getattr(table, code).startswith(f"[{code}] ")


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
