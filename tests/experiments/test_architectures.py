"""Workflows that take too long to be run here: that they would do what is said."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import torch

from experiments import architectures
from experiments.architectures import AVERAGES, EPOCHS, VARIANTS, main
from spacy_elmo import models as shipped
from spacy_elmo.pretrain.config import parse_overrides, read_config
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text import Request, prepare

CONFIG = (
    Path(__file__).parents[2] / "experiments" / "configs" / "pretrain_en_elmo_sm.cfg"
)


def test_architectures_differ_in_one_thing_each(tmp_path, monkeypatch):
    found = {}

    def keep(*command):
        config, flags = command[3], command[6:]
        found[name] = read_config(config, parse_overrides(flags)).to_dict()

    monkeypatch.setattr(architectures, "run", keep)
    for name, settings in VARIANTS.items():
        places = tmp_path / "text", tmp_path / "dev"
        architectures.train(CONFIG, tmp_path / name, settings, *places, 10)
    assert all(of["text"]["dev"] == [str(tmp_path / "dev")] for of in found.values())
    base = found.pop("base")
    for name, other in found.items():
        differs = {
            f"{section}.{key}"
            for section in ("model", "training", "blocks")
            for key in base[section]
            if base[section][key] != other[section][key]
        }
        settings = {key.replace("training.objective", "blocks.objective")
                    for key in VARIANTS[name]}  # fmt: skip
        settings = {re.sub(r"training.optimizer.*", "blocks.optimizer", key)
                    for key in settings}  # fmt: skip
        if "training.batch_size" in settings:  # as many tokens
            assert other["training"]["max_steps"] in (5, 1)
            settings.add("training.max_steps")
        assert differs == settings, name


@pytest.mark.slow
def test_rows_are_trained_and_put_into_a_table(tmp_path):
    """One of each kind that is not a setting alone."""
    text = tmp_path / "text.txt"
    words = ["the", "a", "cat", "dog", "sat", "ran", "on", "under", "mat", "tree", "."]
    lines = (" ".join(words[n % 7 :] + words[: n % 5]) for n in range(4_000))
    text.write_text("\n".join(lines), encoding="utf-8")
    prepare([text], tmp_path / "text", Request("en", "whitespace", False))
    tiny = CONFIG.read_text(encoding="utf-8").replace(
        "hidden_dim = 512", "hidden_dim = 8"
    )
    tiny = tiny.replace("projection_dim = 256", "projection_dim = 16")
    tiny = tiny.replace("cutoffs = [2000, 8000]", "cutoffs = [4, 8]")
    tiny = re.sub(r"filters = .*", "filters = [[1, 4]]", tiny)
    tiny = re.sub(r"dev = .*", f"dev = {json.dumps([str(tmp_path / 'text')])}", tiny)
    config = tmp_path / "tiny.cfg"
    config.write_text(tiny, encoding="utf-8")
    names = ["base", *EPOCHS, *AVERAGES, "Muon, batch 128"]
    folder = tmp_path / "text"
    main(config, tmp_path / "out", text, folder, folder, 12, "float32", names, True)
    table = (tmp_path / "out" / "table.md").read_text(encoding="utf-8")
    assert [
        line.split(" | ")[0].strip("| ") for line in table.splitlines()[2:]
    ] == names
    # Again: what is there is not made again, and the average is of the same weights.
    (row,) = AVERAGES
    mean = (tmp_path / "out" / row.replace(" ", "_")).joinpath("model-best")
    before = LanguageModel.load(mean).state_dict()
    main(config, tmp_path / "out", text, folder, folder, 12, "float32", [row], False)
    for name, weight in LanguageModel.load(mean).state_dict().items():
        assert torch.equal(weight, before[name]), name
    other = tmp_path / "other.cfg"
    other.write_text(tiny.replace("seed = 0", "seed = 1"), encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError):  # its checkpoints are another's
        main(other, tmp_path / "out", text, folder, folder, 12, "float32", [row], False)
    with pytest.raises(SystemExit):
        main(config, tmp_path, text, folder, folder, 12, "float32", ["x"], False)


@pytest.mark.parametrize("name", shipped.MODELS.values())
def test_cards_say_what_one_needs_to_know(name):
    card = json.loads((shipped.find(name) / "card.json").read_text(encoding="utf-8"))
    for text in (card["text"]["note"], card["text"]["licence"], card["limits"]):
        assert len(text) > 5
    assert re.search(r"spacy(_elmo\.| elmo )pretrain (\.\./)?configs/", card["command"])
    assert card["tokens_seen"] > 1e6 and card["seconds"] > 60 and card["hardware"]
    for part in ("dev", "test"):
        perplexity = card[f"{part}_perplexity"]
        low, high = sorted((perplexity["forward"], perplexity["backward"]))
        assert low <= perplexity["mean"] <= high < 1000
        assert 0 < perplexity["bits_per_character"] < 8
