"""A run that is stopped, killed or starved goes on as if nothing had happened."""

import os
import signal
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from spacy_elmo import BiLM
from spacy_elmo.bilm import read_with_checksum, write_with_checksum
from spacy_elmo.bilm.kernels import choose_training_matmul, force, plan
from spacy_elmo.files import atomic as files
from spacy_elmo.models import read_card
from spacy_elmo.pretrain import checkpoint, loggers, loop
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.pretrain.loop import Stopped, pretrain
from spacy_elmo.text import Request, prepare

from .runs import (
    CONFIG,
    OBJECTIVES,
    SAMPLED,
    interrupt_at,
    log,
    prepare_text,
    settled,
    write_config,
    write_text,
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return what a run leaves that nothing disturbs, by the name of its objective."""

    @cache
    def leaves(objective):
        folder = tmp_path_factory.mktemp(objective)
        write_text(folder)
        config = read_config(write_config(folder, **OBJECTIVES[objective]))
        pretrain(config, folder / "out")
        return settled(folder / "out")

    return leaves


def test_figures_of_before_stay_as_they_are(folder):
    """A number of tokens is no fraction because a run was resumed."""
    constant = {"@schedules": "spacy-elmo.Constant.v1"}
    settings = {"training.softmax_first": 1, "training.schedule": constant}
    cards = []
    for steps in (2, 4):
        found = read_config(
            write_config(folder), {**settings, "training.max_steps": steps}
        )
        pretrain(found, folder / "out")
        card = read_card(folder / "out" / "model-last")
        cards.append(repr(card["dev_perplexity_before"]))
    assert cards[0] == cards[1]


@pytest.mark.parametrize(
    ("objective", "number"),
    [
        ("adaptive", signal.SIGTERM),
        pytest.param("full", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("sampled", signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_stopped_in_the_middle(folder, monkeypatch, undisturbed, number, objective):
    """Between two saves, evaluations and lines of the log; dropout at work."""
    config = read_config(write_config(folder, **OBJECTIVES[objective]))
    interrupt_at(monkeypatch, 33, number)
    with pytest.raises(Stopped, match="after step 34 of 69") as stopped:
        pretrain(config, folder / "out")
    assert stopped.value.signal_number == number
    assert checkpoint.read_progress(folder / "out")["step"] == 34
    assert log(folder / "out")[-1]["step"] == 30
    monkeypatch.undo()
    pretrain(config, folder / "out")
    assert settled(folder / "out") == undisturbed(objective)


@pytest.mark.slow
def test_gradient_descent_in_parts_is_resumed_too(folder, monkeypatch):
    text = CONFIG.replace("Adam", "Adagrad").replace(
        "[training]", "[training]\naccumulate = 2"
    )
    config = read_config(write_config(folder, text, **SAMPLED))
    pretrain(config, folder / "whole")
    interrupt_at(monkeypatch, 41)
    with pytest.raises(Stopped):
        pretrain(config, folder / "out")
    monkeypatch.undo()
    pretrain(config, folder / "out")
    assert settled(folder / "out") == settled(folder / "whole")


def test_matrices_are_multiplied_as_before_the_checkpoint(folder, monkeypatch):
    """Where by now something else would be chosen."""
    monkeypatch.setattr(plan, "instructions", lambda: "avx512")
    config = read_config(write_config(folder), {"training.max_steps": 40})
    assert choose_training_matmul("cpu") == "onednn"
    with force(training_matmul="torch"):
        pretrain(config, folder / "whole")
        with monkeypatch.context() as stopping:
            interrupt_at(stopping, 33)
            with pytest.raises(Stopped):
                pretrain(config, folder / "out")
    assert checkpoint.read_progress(folder / "out")["matmul"] == "torch"
    pretrain(config, folder / "out")
    assert checkpoint.read_progress(folder / "out")["matmul"] == "torch"
    assert settled(folder / "out") == settled(folder / "whole")


def test_second_interrupt_stops_at_once(folder, monkeypatch):
    from spacy_elmo.processes import StopSignals

    with StopSignals() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.asked == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_finished_run_is_not_made_again(folder):
    config = read_config(write_config(folder))
    best = pretrain(config, folder / "out")
    before = {p: p.stat().st_mtime_ns for p in best.iterdir()}
    assert pretrain(config, folder / "out") == best
    assert len(before) == 5
    assert {p: p.stat().st_mtime_ns for p in best.iterdir()} == before
    pretrain(config, folder / "out", overwrite=True)
    assert {p: p.stat().st_mtime_ns for p in best.iterdir()} != before


def test_checkpoint_of_another_configuration(folder):
    path = write_config(folder)
    pretrain(read_config(path), folder / "out")
    free = {"training.log_every": 3, "training.accumulate": 2}
    other = read_config(path, {"training.seed": 5, **free})
    with pytest.raises(ValueError, match=r"EL047.*training.seed was 0 and is 5") as e:
        pretrain(other, folder / "out")
    assert "log_every" not in str(e.value) and "accumulate" not in str(e.value)
    pretrain(read_config(path, free), folder / "out")
    pretrain(other, folder / "out", overwrite=True)


@pytest.mark.parametrize("steps", [34, 20])
def test_made_shorter_than_it_is(folder, monkeypatch, steps):
    """There is no step left at whose end a model would be written."""
    path = write_config(folder)
    interrupt_at(monkeypatch, 33)
    with pytest.raises(Stopped):
        pretrain(read_config(path), folder / "out")
    monkeypatch.undo()
    before = (folder / "out" / checkpoint.FILE).read_bytes()
    with pytest.raises(ValueError, match=r"EL047.*34 steps .* none left"):
        pretrain(read_config(path, {"training.max_steps": steps}), folder / "out")
    assert (folder / "out" / checkpoint.FILE).read_bytes() == before


def test_overwriting_begins_when_nothing_is_refused_any_more(folder, monkeypatch):
    path = write_config(folder)
    pretrain(read_config(path), folder / "out")
    before = settled(folder / "out")
    none = read_config(path, {"text.train": ["none.txt"]})
    with pytest.raises(OSError, match="EL030"):
        pretrain(none, folder / "out", overwrite=True)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    logged = read_config(path, {"training.tensorboard": True})
    with pytest.raises(ImportError, match="EL049"):
        pretrain(logged, folder / "out", overwrite=True)
    assert settled(folder / "out") == before
    assert checkpoint.read_progress(folder / "out")["step"] == 69


def test_commands_that_are_no_utf_8(folder, monkeypatch):
    path = write_config(folder)
    interrupt_at(monkeypatch, 20)
    with pytest.raises(Stopped):
        pretrain(read_config(path), folder / "out", command="caf\udce9.cfg")
    monkeypatch.undo()
    best = pretrain(read_config(path), folder / "out", command="cafe.cfg")
    commands = [row["command"] for row in read_card(best)["commands"]]
    assert commands == [r"caf\udce9.cfg", "cafe.cfg"]


STABLE = {
    "training.schedule": {
        "@schedules": "spacy-elmo.WarmupStableDecay.v1",
        "warmup_steps": 3,
        "decay_steps": 6,
    }
}


def test_made_longer_and_shorter_as_if_it_had_been_so_from_the_start(
    folder, monkeypatch
):
    path = write_config(folder, **STABLE)
    short = read_config(path, {"training.max_steps": 50})
    pretrain(short, folder / "straight")
    long = read_config(path, {"training.epochs": 9})
    interrupt_at(monkeypatch, 33)
    with pytest.raises(Stopped):
        pretrain(long, folder / "out")
    monkeypatch.undo()
    pretrain(short, folder / "out")
    assert settled(folder / "out") == settled(folder / "straight")
    # Its rate has fallen, which it would not have by now in a longer one.
    with pytest.raises(ValueError, match=r"EL047.*make 50 steps and is to make 207"):
        pretrain(long, folder / "out")


def test_card_names_every_command(folder, monkeypatch):
    path = write_config(folder)
    interrupt_at(monkeypatch, 20)
    with pytest.raises(Stopped):
        pretrain(read_config(path), folder / "out", command="first")
    monkeypatch.undo()
    monkeypatch.setattr(loop, "check_training_precision", lambda *_: None)
    low = read_config(path, {"training.precision": "bfloat16"})
    best = pretrain(low, folder / "out", command="second")
    card = read_card(best)
    assert card["commands"] == [
        {"step": 0, "command": "first"},
        {"step": 21, "command": "second"},
    ]
    assert card["config"]["training"]["precision"] == "bfloat16"


def test_text_changed_behind_a_checkpoint(folder):
    config = read_config(write_config(folder))
    pretrain(config, folder / "out")
    (folder / "train.txt").write_text("another text altogether\n" * 90)
    with pytest.raises(ValueError, match="EL042"):
        pretrain(config, folder / "out")
    shard = folder / "out" / "text" / "train" / "00000.forward.npy"
    data = shard.read_bytes()
    write_text(folder)
    shard.write_bytes(data[:-4] + b"\2\0\0\0")
    with pytest.raises(ValueError, match=r"EL041.*00000.forward.npy.*changed"):
        pretrain(config, folder / "out")
    shard.unlink()
    with pytest.raises(ValueError, match=r"EL041.*missing"):
        pretrain(config, folder / "out")


def test_prepared_text_replaced_behind_a_checkpoint(folder):
    config = read_config(write_config(folder), prepare_text(folder))
    pretrain(config, folder / "out")
    (folder / "train.txt").write_text("another text altogether\n" * 90)
    prepare(
        [folder / "train.txt"],
        folder / "train",
        Request(),
        overwrite=True,
        progress=False,
    )
    with pytest.raises(ValueError, match=r"EL047.*text of train"):
        pretrain(config, folder / "out")


@pytest.mark.parametrize("spoil", ["cut", "other"])
@pytest.mark.slow
def test_damaged_checkpoint(folder, spoil):
    config = read_config(write_config(folder))
    pretrain(config, folder / "out")
    path = folder / "out" / checkpoint.FILE
    if spoil == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        save_file({"a": torch.ones(2)}, path)
    with pytest.raises(ValueError, match="EL046"):
        pretrain(config, folder / "out")
    pretrain(config, folder / "out", overwrite=True)


@pytest.mark.parametrize(
    "spoilt",
    [
        {"results": {}},
        {"results": {"commands": [], "started_from": None}},
        {"results": {"commands": [{}], "started_from": None}},
        {"results": {"commands": [{"command": ""}], "started_from": {}, "best": "a"}},
        {"recent": []},
        {"recent": ["a", "b"]},
        {"matmul": []},
    ],
    ids=repr,
)
def test_progress_that_no_run_has_saved(folder, spoilt):
    """Though its checksum is right."""
    config = read_config(write_config(folder), {"training.max_steps": 1})
    pretrain(config, folder / "out")
    path = folder / "out" / checkpoint.FILE
    header, arrays = read_with_checksum(path, "checkpoint")
    header["progress"] |= spoilt
    write_with_checksum(path, arrays, "checkpoint", header)
    with pytest.raises(ValueError, match="EL046"):
        pretrain(config, folder / "out")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("at", [checkpoint.FILE, "weights.safetensors", "card.json"])
@pytest.mark.slow
def test_full_disk_stops_with_the_last_checkpoint_whole(
    folder, monkeypatch, undisturbed, at
):
    config = read_config(write_config(folder))
    real, seen = files.fill, []
    most = 4 if at == checkpoint.FILE else 3  # there is one before the first step

    def fill(write, aside):
        seen.append(at in aside.name)
        real(write, aside if sum(seen) < most else Path("/dev/full"))

    monkeypatch.setattr(files, "fill", fill)
    with pytest.raises(OSError, match="EL013"):
        pretrain(config, folder / "out")
    monkeypatch.undo()
    assert checkpoint.read_progress(folder / "out")["step"] >= 20
    assert BiLM.load(folder / "out" / "model-last")
    pretrain(config, folder / "out")
    assert settled(folder / "out") == undisturbed("full")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_under_the_log(folder, monkeypatch):
    config = read_config(write_config(folder))
    real = loggers.Log.row

    def row(log, found):
        if found["step"] > 25:
            log.path = Path("/dev/full")
        real(log, found)

    monkeypatch.setattr(loggers.Log, "row", row)
    with pytest.raises(OSError, match="EL013"):
        pretrain(config, folder / "out")
    monkeypatch.undo()
    pretrain(config, folder / "out")
    assert [r["step"] for r in log(folder / "out")] == [*range(5, 69, 5), 69]
