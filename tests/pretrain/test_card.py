"""What a card says of the machine, and of the model that a run started from."""

import pytest
import torch

from experiments.model_page import render
from spacy_elmo.models import read_card, tokens_read
from spacy_elmo.pretrain.loop import pretrain
from spacy_elmo.pretrain.results import describe_device

from .runs import CONFIG, config, without_model


def test_a_gpu_is_named_with_the_memory_that_was_taken(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 3 << 29)
    assert describe_device(torch.device("cpu")) == "cpu"
    assert (
        describe_device(torch.device("cuda:0")) == "cuda:0 (NVIDIA H200, 1.5 GiB taken)"
    )


def test_it_says_what_the_run_started_from(folder):
    """Also of the model that that one started from."""
    first = pretrain(config(folder, overrides={"text.note": "Tales"}), folder / "a")
    found = [read_card(first)]
    assert found[0]["started_from"] is None
    for name, before in (("b", "a"), ("c", "b")):
        init = str(folder / before / "model-best")
        settings = {"training.init": init, "training.max_steps": 25}
        text = without_model(CONFIG)
        found.append(read_card(pretrain(config(folder, text, settings), folder / name)))
    tokens = [card["tokens_seen"] for card in found]
    assert tokens_read(found[2]) == sum(tokens)
    before = found[2]["started_from"]
    assert before["fingerprint"] == found[1]["fingerprint"]
    assert before["started_from"]["text"]["note"] == "Tales"
    card = {**found[2], "test_perplexity": found[2]["dev_perplexity"], "limits": ""}
    page = "".join(render("c", "en", card | {"version": "3"}))
    said = "Before it, an earlier part of the training read {:,} tokens of"
    assert (
        all(said.format(n) in page for n in tokens[:2]) and "version None" not in page
    )


def test_names_of_files_that_are_no_utf_8(folder):
    name = folder / "caf\udce9.txt"
    try:
        name.write_bytes((folder / "train.txt").read_bytes())
    except OSError:
        pytest.skip("this system has no such names")
    overrides = {"text.train": [str(name)], "text.note": "caf\udce9"}
    card = read_card(pretrain(config(folder, overrides=overrides), folder / "out"))
    assert card["text"]["files"] == [str(folder / r"caf\udce9.txt")]
    assert card["text"]["note"] == card["config"]["text"]["note"] == r"caf\udce9"
