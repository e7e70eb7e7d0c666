"""Sizes: what is refused, how it is said, and that settings come back as they were."""

import copy
import json
import pickle
import tracemalloc

import pytest

from spacy_elmo.bilm.config import PUBLISHED, BiLMConfig


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"hidden_dim": 0}, "hidden_dim: .*greater than or equal to 1, found 0"),
        ({"hidden_dim": 3.0}, "hidden_dim: .*integer, found 3.0"),
        ({"hidden_dim": True}, "hidden_dim: .*integer, found True"),
        ({"hidden_dim": 10**30}, "hidden_dim: .*less than or equal to 10000000"),
        ({"n_layers": 101}, "n_layers: .*100"),
        ({"n_highway": -1}, "n_highway"),
        ({"max_characters": 2}, "max_characters: .*3"),
        ({"token_projection": 1}, "token_projection: .*boolean"),
        ({"activation": "gelu"}, "activation: .*'relu' or 'tanh', found 'gelu'"),
        ({"characters": "words"}, "characters: .*'bytes' or 'alphabet'"),
        ({"cell_clip": 0}, "cell_clip: .*greater than 0"),
        ({"cell_clip": float("nan")}, "cell_clip"),
        ({"cell_clip": float("inf")}, "cell_clip"),
        ({"cell_clip": 10**400}, "cell_clip"),
        ({"proj_clip": "3"}, "proj_clip: .*number, found '3'"),
        ({"forget_bias": float("nan")}, "forget_bias"),
        ({"forget_bias": -float("inf")}, "forget_bias"),
        ({"forget_bias": 10**400}, "forget_bias"),
        ({"forget_bias": None}, "forget_bias"),
        ({"filters": 7}, "filters"),
        ({"filters": [[1]]}, r"filters\.0\.1: .*required"),
        ({"filters": [[1, 2], [0, 2]]}, r"filters\.1\.0: .*greater than or equal to 1"),
        ({"filters": []}, "filters must be 1 to 100 pairs"),
        ({"filters": [[1, 1]] * 101}, "filters: must be 1 to 100 pairs"),
        ({"filters": [[51, 1]]}, "wider than max_characters"),
        ({"n_characters": 261}, "at least 262 for bytes"),
        ({"characters": "alphabet", "n_characters": 6}, "n_characters: .*7"),
        ({"word_dim": 3}, "word_dim needs n_words"),
        ({"lstm_projection": False}, r"hidden_dim \(1024\) must equal .* \(128\)"),
        ({"token_projection": False}, r"filters \(2048\) must sum to .* \(128\)"),
        ({"colour": "red"}, "unknown setting 'colour'"),
        ({"self": 1}, "unknown setting 'self'"),
        ({"n_layers": 0, "word_dim": -1}, "n_layers: .*; word_dim: "),
    ],
)
def test_what_can_not_be_is_refused(sizes, said):
    for make in (lambda: BiLMConfig(**sizes), lambda: BiLMConfig.from_dict(sizes)):
        with pytest.raises(ValueError, match=rf"EL020.*{said}") as caught:
            make()
        assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "sizes",
    [{"filters": [[0, "x"]] * 10**5}, {f"size{i}": 1 for i in range(10**5)}],
    ids=["filters", "settings"],
)
def test_a_long_refusal_takes_little_memory(sizes):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="EL020"):
            BiLMConfig.from_dict(sizes)
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", ["x" * 10**6, [1] * 10**6, 10**1000])
def test_messages_stay_short(value):
    with pytest.raises(ValueError, match="EL020") as caught:
        BiLMConfig(hidden_dim=value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"cell_clip": None, "proj_clip": 5},
        {"forget_bias": 0, "cell_clip": 2.5},
        {"filters": [[1, 4], [2, 5]]},
        {"n_words": 9, "filters": []},
        {"n_words": 9, "word_dim": 3, "characters": "alphabet", "n_characters": 7},
    ],
)
def test_settings_come_back_as_they_were(sizes):
    """To the type, which fingerprints of models depend on."""
    config = BiLMConfig(**sizes)
    found = config.to_dict()
    assert {k: repr(found[k]) for k in sizes} == {k: repr(v) for k, v in sizes.items()}
    assert list(found)[:3] == ["hidden_dim", "projection_dim", "n_layers"]
    for again in (
        BiLMConfig.from_dict(json.loads(json.dumps(found))),
        copy.deepcopy(config),
        pickle.loads(pickle.dumps(config)),
    ):
        assert again == config and hash(again) == hash(config)


def test_a_configuration_does_not_change():
    with pytest.raises(ValueError, match="frozen"):
        BiLMConfig().hidden_dim = 3


def test_published_sizes():
    widths = {name: config.width for name, config in PUBLISHED.items()}
    assert widths == {"small": 256, "medium": 512, "original": 1024}
    assert all(config.n_filters == 2048 for config in PUBLISHED.values())
