"""Every kind of bad file in our own format: one message."""

import json
import os

import pytest
import torch
from safetensors.torch import load_file, save_file

from spacy_elmo import BiLM

from ...models import tiny_config


@pytest.fixture
def own(tiny, tmp_path):
    tiny.save(tmp_path / "model")
    return tmp_path / "model"


def edit_config(folder, **changes):
    header = json.loads((folder / "config.json").read_text())
    header.pop("sha256")
    header["bilm"].update(changes.pop("bilm", {}))
    (folder / "config.json").write_text(json.dumps({**header, **changes}))


def edit_weights(folder, edit):
    arrays = load_file(folder / "weights.safetensors")
    edit(arrays)
    save_file(arrays, folder / "weights.safetensors")


def nan(arrays):
    arrays["forward_lstm.layers.0.bias"][3] = float("nan")


BIAS = "forward_lstm.layers.0.bias"
OWN = {
    "no folder": ("EL001", lambda f: (f / "config.json").unlink()),
    "no weights": ("EL001", lambda f: (f / "weights.safetensors").unlink()),
    "not json": ("EL002", lambda f: (f / "config.json").write_text("{")),
    "binary json": (
        "EL002",
        lambda f: (f / "config.json").write_bytes(b"\xff\xfe\x00"),
    ),
    "other json": ("EL003", lambda f: (f / "config.json").write_text("[1]")),
    "missing array": ("EL006", lambda f: edit_weights(f, lambda a: a.pop(BIAS))),
    "wrong shape": (
        "EL007",
        lambda f: edit_weights(f, lambda a: a.update({BIAS: torch.zeros(3)})),
    ),
    "sizes of another model": (
        "EL007",
        lambda f: edit_config(f, bilm={"hidden_dim": 13}),
    ),
    "huge sizes": ("EL007", lambda f: edit_config(f, bilm={"hidden_dim": 9_999_999})),
    "nan": (
        "EL008",
        lambda f: (edit_weights(f, nan), edit_config(f, fingerprint=None)),
    ),
    "integers": (
        "EL009",
        lambda f: edit_weights(
            f, lambda a: a.update({BIAS: torch.zeros(48, dtype=torch.int64)})
        ),
    ),
    "truncated": (
        "EL002",
        lambda f: os.truncate(f / "weights.safetensors", 500),
    ),
    "not safetensors": (
        "EL002",
        lambda f: (f / "weights.safetensors").write_bytes(b"\x80\x04pickle" * 100),
    ),
    "unknown array": (
        "EL006",
        lambda f: edit_weights(f, lambda a: a.update(extra=torch.zeros(2))),
    ),
    "changed weights": ("EL012", lambda f: edit_weights(f, lambda a: a[BIAS].add_(1))),
    "newer format": ("EL014", lambda f: edit_config(f, format=99)),
    "impossible sizes": ("EL020", lambda f: edit_config(f, bilm={"n_layers": -1})),
    "a million layers": ("EL020", lambda f: edit_config(f, bilm={"n_layers": 10**6})),
    "infinite filters": (
        "EL020",
        lambda f: edit_config(f, bilm={"filters": [[float("inf"), 3]]}),
    ),
    "no format": ("EL003", lambda f: edit_config(f, format=None)),
    "unknown setting": ("EL020", lambda f: edit_config(f, bilm={"colour": "red"})),
    "sizes of the wrong kind": (
        "EL020",
        lambda f: edit_config(f, bilm={"filters": "many"}),
    ),
}


@pytest.mark.parametrize("case", OWN)
def test_bad_own_files(own, case):
    code, damage = OWN[case]
    damage(own)
    with pytest.raises((ValueError, FileNotFoundError), match=code):
        BiLM.load(own)


@pytest.mark.parametrize(
    "changes",
    [
        {"activation": "gelu"},
        {"filters": []},
        {"filters": [[60, 3]]},
        {"cell_clip": -1},
        {"hidden_dim": 10**9},
        {"hidden_dim": 8.5},
        {"skip_connections": "yes"},
        {"token_projection": False},
        {"lstm_projection": False},
        {"n_characters": 261},
        {"max_characters": 2},
    ],
)
def test_impossible_sizes(changes):
    with pytest.raises(ValueError, match="EL020"):
        tiny_config(**changes)
