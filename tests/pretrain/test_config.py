"""Configurations: what they can name, and what is wrong with one in a message."""

import pytest

from spacy_elmo.pretrain.config import parse_overrides, read_config
from spacy_elmo.pretrain.schedules import (
    constant,
    warmup_cosine,
    warmup_linear,
    warmup_stable_decay,
)

from .runs import ADAPTIVE, CONFIG, SAMPLED, write_config


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("training", "seed", "one"),
        ("training", "seed", -1),
        ("training", "batch_size", 2.5),
        ("training", "colour", "red"),
        ("text", "train", 3),
        ("text", "train", ""),
        ("text", "dev", ["a.txt", ""]),
        ("vocab", "size", "many"),
        ("training", "batch_size", 0),
        ("training", "batch_size", 10**30),
        ("training", "accumulate", 3),
        ("training", "eval_every", 0),
        ("training", "save_every", 0),
        ("training", "epochs", 0),
        ("training", "max_steps", 0),
        ("training", "clip_norm", 0.0),
        ("training", "clip_norm", 1e39),
        ("text", "processes", 0),
        ("text", "max_tokens", 0),
        ("text", "dev_max_tokens", -1),
        ("text", "also", {"../../x": ["a.txt"]}),
        ("text", "also", {"/x": ["a.txt"]}),
        ("vocab", "size", 0),
        ("vocab", "min_count", -1),
        ("training", "dropout", 1.0),
        ("training", "precision", "float16"),
        ("training", "save_dtype", "float64"),
        ("training", "device", "gpu"),
        ("training", "threads", -1),
        ("training", "threads", 1025),  # torch crashes with some more
        ("training", "seed", 1 << 63),
        ("training.optimizer", "learn_rate", "high"),
        ("training.optimizer", "speed", 1.0),
        *(
            ("training.optimizer", "learn_rate", value)
            for value in (10**39, 10**400, -1.0, float("nan"), float("inf"), "fast")
        ),
        ("training.optimizer", "beta1", 1.0),
        ("training.optimizer", "eps", 0),
        ("training.optimizer", "weight_decay", 1e39),
        ("training.schedule", "warmup_steps", -1),
        ("training.schedule", "final", float("nan")),
    ],
)
def test_settings_of_the_wrong_kind(tmp_path, section, name, value):
    path = write_config(tmp_path)
    with pytest.raises(ValueError, match=f"EL037.*{name}") as raised:
        read_config(path, {f"{section}.{name}": value})
    assert "\n" not in str(raised.value)


def test_broken_configurations(tmp_path):
    path = write_config(tmp_path)
    text = path.read_text()
    cases = {
        "EL037.*nowhere": text + "\n[nowhere]\na = 1\n",
        "EL037.*dev": text.replace("dev = ", "# dev = "),
        "EL037.*remove": text.replace("[training]", '[training]\ninit = "somewhere"'),
        "EL037": "no sections at all",
        "EL037.*bytes": text.replace("[model]", '[model]\ncharacters = "alphabet"'),
        "EL020": text.replace("hidden_dim = 16", "hidden_dim = 0"),
        r"EL037.*Adam\.v9.*Adam\.v1": text.replace("Adam.v1", "Adam.v9"),
        "EL037.*@optimizers": text.replace("@optimizers", "name"),
        "EL037.*already exists": text + "\n[training]\nseed = 1\n",
        "EL037.*epochs.*": text.replace("epochs = 3", "epochs = ${vars.n}"),
        "EL037.*samples": text + "\n[training.objective]\nsamples = 0\n"
        '@objectives = "spacy-elmo.SampledSoftmax.v1"\n',
        "EL037.*@objectives": text + '\n[training.objective]\nname = "a"\n',
    }
    for match, broken in cases.items():
        path.write_text(broken)
        with pytest.raises(ValueError, match=match):
            read_config(path)
    with pytest.raises(ValueError, match="EL037"):
        read_config(tmp_path / "missing.cfg")


def test_blocks_and_their_defaults(tmp_path):
    config = read_config(write_config(tmp_path))
    assert config.objective()(4, 20).describe() == "full softmax"
    assert config.logger() is None
    assert config.schedule()(0, 10_000) < 0.1
    sampled = read_config(write_config(tmp_path, CONFIG, **SAMPLED))
    assert sampled.objective()(4, 20).n_samples == 5


def test_numbers_in_quotes_are_numbers(tmp_path):
    """confection leaves them as they are."""
    quoted = {
        "training.objective": {**ADAPTIVE["training.objective"], "cutoffs": ["5"]}
    }
    adaptive = read_config(write_config(tmp_path, CONFIG, **quoted))
    assert adaptive.objective()(8, 20).cutoffs == [5]


def test_overrides():
    args = ["--training.epochs", "2", "--text.train", '["a.txt"]', "--text.lang=ko"]
    assert parse_overrides(args) == {
        "training.epochs": 2,
        "text.train": ["a.txt"],
        "text.lang": "ko",
    }
    for wrong in (["--training.epochs"], ["--epochs", "2"], ["training.epochs", "2"]):
        with pytest.raises(ValueError, match="EL037"):
            parse_overrides(wrong)


def test_an_override_of_a_section_that_is_not_there(tmp_path):
    overrides = parse_overrides(["--training.schedule.final", "0.1"])
    with pytest.raises(ValueError, match=r"EL037.*schedule.*add the section"):
        read_config(write_config(tmp_path), overrides)


def test_one_path_needs_no_brackets(tmp_path):
    """Which each shell, and Windows, wants quoted in another way."""
    args = ["--text.train", "a.txt", "--text.dev", '["b.txt", "c.txt"]']
    found = read_config(write_config(tmp_path), parse_overrides(args)).text
    assert found.train == ["a.txt"] and found.dev == ["b.txt", "c.txt"]
    with pytest.raises(ValueError, match=r"EL037.*text\.train"):
        read_config(write_config(tmp_path), {"text.train": 3})


@pytest.mark.parametrize("schedule", [warmup_cosine, warmup_linear])
def test_schedules_rise_and_fall(schedule):
    factor = schedule(warmup_steps=9, final=0.1)
    factors = [factor(step, 100) for step in range(101)]
    assert factors[:10] == pytest.approx([(n + 1) / 10 for n in range(10)])
    assert factors[9:] == sorted(factors[9:], reverse=True)
    assert factors[100] == pytest.approx(0.1)
    middle = factor((9 + 100) / 2, 100)
    assert middle == pytest.approx((1 + 0.1) / 2)
    short = [factor(step, 10) for step in range(10)]  # a tenth of the steps at most
    assert short[1] == pytest.approx(1.0, abs=0.1)


def test_stable_rate_falls_at_the_end_alone():
    factor = warmup_stable_decay(warmup_steps=4, decay_steps=20, final=0.1)
    factors = [factor(step, 100) for step in range(101)]
    assert factors[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert factors[4:81] == [1.0] * 77
    assert factors[90] == pytest.approx((1 + 0.1) / 2)
    assert factors[100] == pytest.approx(0.1)
    assert [factor(step, 500) for step in range(81)] == factors[:81]
    rising = warmup_stable_decay(warmup_steps=4, decay_steps=20, final=1.5)
    assert [rising(step, 100) for step in (4, 50, 80)] == [1.0] * 3
    assert rising(100, 100) == 1.5


def test_constant_stays():
    factor = constant(warmup_steps=4)
    assert [factor(step, 100) for step in (0, 4, 50, 100)] == [0.2, 1.0, 1.0, 1.0]
