"""A run that is stopped, killed or starved goes on as if nothing had happened."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from spacy_elmo import BiLM
from spacy_elmo import atomic_files as files
from spacy_elmo.pretrain import checkpoint, loggers, loop
from spacy_elmo.pretrain.card import read_card
from spacy_elmo.pretrain.config_file import read_config
from spacy_elmo.pretrain.loop import pretrain
from spacy_elmo.pretrain.stop import Stopped
from spacy_elmo.text.prepare import Request, prepare

from ..models import same_layers, tiny_config
from .runs import (
    ADAPTIVE,
    CONFIG,
    SAMPLED,
    command,
    log,
    prepare_text,
    run,
    write_config,
    write_text,
)


def settled(output):
    """Everything that a run leaves and that does not tell the time."""
    rows = [
        {k: v for k, v in row.items() if k not in ("seconds", "tokens_per_second")}
        for row in log(output)
    ]
    arrays = {
        name: (output / name).read_bytes()
        for name in (
            "model-best/weights.safetensors",
            "model-last/weights.safetensors",
            "model-last/softmax.safetensors",
        )
    }
    with safe_open(output / checkpoint.FILE, framework="pt") as file:
        for name in list(file.keys()):
            arrays[name] = file.get_tensor(name).numpy().tobytes()
    return rows, arrays


KILLS = 20
SAVE_EVERY = 10


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_twenty_times_ends_bitwise_the_same(tmp_path):
    write_text(tmp_path)
    text = CONFIG.replace("epochs = 3", "epochs = 400")
    config = write_config(tmp_path, text, **ADAPTIVE)
    overrides = ("--training.eval_every", "50", "--training.max_steps", "4000")
    run(config, tmp_path / "whole", *overrides)
    output, rng = tmp_path / "killed", random.Random(0)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    kills = while_saving = 0  # a save that a kill cuts short leaves hidden files
    while kills < KILLS:
        before = checkpoint.read_progress(output) or {"step": 0}
        process = subprocess.Popen(
            command(config, output, *overrides),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        # Half of them at any moment from the start on, half in the midst of a save.
        if kills % 2:
            time.sleep(rng.uniform(0.5, 4.5))
        else:
            wait_for_a_save(process, output, rng)
        process.kill()
        process.wait()
        while_saving += bool(list(output.rglob(".*")))
        kills += 1
        # Whatever the moment: what is under a name is whole, and nothing went back.
        after = checkpoint.read_progress(output) or {"step": 0}
        assert after["step"] >= before["step"]
        if log_path_exists(output) and log(output):
            assert log(output)[-1]["step"] - after["step"] <= SAVE_EVERY
    assert after["step"] < 4000, "the run was over before it was killed often enough"
    run(config, output, *overrides)
    assert settled(output) == settled(tmp_path / "whole")
    assert not list(output.rglob(".*")), "rests of killed processes"
    assert while_saving > 0


def log_path_exists(output):
    return (output / "log.jsonl").exists()


def wait_for_a_save(process, output, rng):
    """Until files are being written aside, for the n-th time."""
    folders = [output, output / "model-best", output / "model-last"]
    saves, saving = rng.randint(1, 6), False
    while process.poll() is None and saves:
        before, saving = (
            saving,
            any(
                name.startswith(".")
                for folder in folders
                if folder.exists()
                for name in os.listdir(folder)
            ),
        )
        saves -= saving and not before


# -- stopped, starved, spoilt -----------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    write_text(tmp_path)
    return tmp_path


def interrupt_at(monkeypatch, step, number=signal.SIGINT):
    """The signal comes in the middle of a step."""
    real, at = loop.train_step, step

    def train_step(*args, step, **kwargs):
        if step == at:
            os.kill(os.getpid(), number)
        return real(*args, step=step, **kwargs)

    monkeypatch.setattr(loop, "train_step", train_step)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("objective", [{}, ADAPTIVE, SAMPLED])
def test_stopped_in_the_middle(folder, monkeypatch, number, objective):
    """Between two saves, evaluations and lines of the log; dropout at work."""
    config = read_config(write_config(folder, **objective))
    pretrain(config, folder / "whole")
    interrupt_at(monkeypatch, 33, number)
    with pytest.raises(Stopped, match="after step 34 of 69") as stopped:
        pretrain(config, folder / "out")
    assert stopped.value.signal_number == number
    assert checkpoint.read_progress(folder / "out")["step"] == 34
    assert log(folder / "out")[-1]["step"] == 30
    monkeypatch.undo()
    pretrain(config, folder / "out")
    assert settled(folder / "out") == settled(folder / "whole")


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


def test_second_interrupt_stops_at_once(folder, monkeypatch):
    from spacy_elmo.pretrain.stop import StopSignals

    with pytest.raises(KeyboardInterrupt), StopSignals() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.asked == signal.SIGINT
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
    monkeypatch.setattr(loop, "check_bfloat16", lambda _: None)
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


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("at", [checkpoint.FILE, "weights.safetensors", "card.json"])
def test_full_disk_stops_with_the_last_checkpoint_whole(folder, monkeypatch, at):
    config = read_config(write_config(folder))
    pretrain(config, folder / "whole")
    real, seen = files.fill_aside, []

    def fill(write, aside):
        seen.append(at in aside.name)
        real(write, aside if sum(seen) < 3 else Path("/dev/full"))

    monkeypatch.setattr(files, "fill_aside", fill)
    with pytest.raises(OSError, match="EL013"):
        pretrain(config, folder / "out")
    monkeypatch.undo()
    assert checkpoint.read_progress(folder / "out")["step"] >= 20
    assert BiLM.load(folder / "out" / "model-last")
    pretrain(config, folder / "out")
    assert settled(folder / "out") == settled(folder / "whole")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
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


def test_a_save_that_was_killed_half_way_is_undone(folder, monkeypatch):
    """Some files new, some old: what SIGKILL can leave."""
    tiny = BiLM.random(tiny_config(), seed=1)
    other = BiLM.random(tiny_config(), seed=2)
    for n_replaced in range(3):  # of weights and configuration
        target = folder / str(n_replaced)
        tiny.save(target)
        before = {path.name: path.read_bytes() for path in target.iterdir()}
        kill_at_rename(target, other, n_replaced)
        files.recover(target)
        after = {path.name: path.read_bytes() for path in target.iterdir()}
        fresh = folder / "fresh"
        other.save(fresh)
        whole = {path.name: path.read_bytes() for path in fresh.iterdir()}
        assert after == (before if n_replaced < 2 else whole)


def kill_at_rename(target, bilm, n):
    """In a process of its own, which ends before its n-th os.replace."""
    if os.fork() == 0:
        real, seen = os.replace, []

        def replace(*args):
            if len(seen) == n:
                os._exit(0)
            seen.append(1)
            real(*args)

        os.replace = replace
        bilm.save(target)
        os._exit(0)
    os.wait()


def test_rests_of_killed_processes_are_in_nobodys_way(folder):
    """Files of one that was killed while it was undoing what another had left."""
    target = folder / "model"
    tiny, other = (BiLM.random(tiny_config(), seed=seed) for seed in (1, 2))
    tiny.save(target)
    kill_at_rename(target, other, 1)
    (journal,) = target.glob(".previous.*")
    real = files.shutil.rmtree

    def killed(path, **kwargs):
        (Path(path) / "weights.safetensors").unlink()  # half-way through
        raise KeyboardInterrupt

    files.shutil.rmtree = killed
    try:
        with pytest.raises(KeyboardInterrupt):
            files.recover(target)
    finally:
        files.shutil.rmtree = real
    files.recover(target)
    assert same_layers(BiLM.load(target), tiny)
    assert not journal.exists() and not list(target.glob(".*"))
    (target / ".unfinished.abc").mkdir()
    other.save(target)
    assert same_layers(BiLM.load(target), other)
