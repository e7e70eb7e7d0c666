"""Every message that a user can meet has its code, and fits a screen."""

import errno
import json
import pickle
import warnings
from copy import copy
from string import Formatter

import pytest
import torch
from safetensors.torch import save

from spacy_elmo import BiLM
from spacy_elmo.embed.plan import read_plan
from spacy_elmo.errors import ElmoError, ElmoWarning, Errors, Warnings

from .models import tiny_config

CODES = [
    kind
    for table in (Errors, Warnings)
    for code, kind in vars(table).items()
    if code.startswith("EL")
]


@pytest.mark.parametrize("kind", CODES, ids=lambda kind: kind.code)
def test_every_message_has_its_code(kind):
    places = {name for _, name, _, _ in Formatter().parse(kind.template) if name}
    error = kind(**dict.fromkeys(places, 1))
    assert str(error).startswith(f"[{kind.code}] ")
    assert isinstance(error, ElmoError if kind.code[2] != "W" else ElmoWarning)


def test_an_error_is_a_builtin_with_a_code():
    full = OSError(errno.ENOSPC, "no space")
    with pytest.raises(OSError, match="no space") as caught:
        raise Errors.EL013(path="model", error=full)
    assert caught.value.code == "EL013" and caught.value.errno == errno.ENOSPC
    with pytest.raises(ValueError, match="EL217") as caught:
        raise Errors.EL217(path="vectors", left=3)
    assert caught.value.code == "EL217"
    with pytest.raises(Errors.EL213, match=r"^\[EL213\]"):  # not in quotation marks
        raise Errors.EL213(path="vectors", n=2, key="a")


@pytest.mark.parametrize("copied", [copy, lambda e: pickle.loads(pickle.dumps(e))])
@pytest.mark.parametrize(
    "error",
    [
        Errors.EL013(path="model", error=OSError(errno.ENOSPC, "no space")),
        Errors.EL213(path="vectors", n=2, key="a"),
        Warnings.ELW52(path="model"),
    ],
    ids=lambda error: error.code,
)
def test_an_error_comes_back_from_another_process(error, copied):
    found = copied(error)
    assert (type(found), str(found)) == (type(error), str(error))
    assert getattr(found, "errno", 0) == getattr(error, "errno", 0)


def test_a_warning_is_filtered_by_its_class():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", Warnings.ELW52)
        warnings.warn(Warnings.ELW52(path="model"), stacklevel=1)


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
