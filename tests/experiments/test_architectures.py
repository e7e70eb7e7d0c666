"""Workflows that take too long to be run here: that they would do what is said."""

import json
import re
from pathlib import Path

import pytest

from experiments import architectures
from experiments.architectures import VARIANTS
from spacy_elmo import models as shipped
from spacy_elmo.pretrain.config_file import parse_overrides, read_config

CONFIG = Path(__file__).parents[2] / "configs" / "pretrain_en_elmo_sm.cfg"


def test_architectures_differ_in_one_thing_each(tmp_path, monkeypatch):
    found = {}

    def keep(*command):
        config, flags = command[3], command[6:]
        found[name] = read_config(config, parse_overrides(flags)).to_dict()

    monkeypatch.setattr(architectures, "run", keep)
    for name, settings in VARIANTS.items():
        architectures.train(CONFIG, tmp_path / name, settings, tmp_path / "text", 10)
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
        settings = {key.replace("training.optimizer.learn_rate", "blocks.optimizer")
                    for key in settings}  # fmt: skip
        assert differs == settings, name


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
