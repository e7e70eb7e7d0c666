"""A process that is killed at any moment leaves files that are whole."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from spacy_elmo import BiLM
from spacy_elmo.files import atomic as files
from spacy_elmo.pretrain import checkpoint

from ..models import same_layers, tiny_config
from .runs import ADAPTIVE, CONFIG, command, log, run, settled, write_config, write_text

KILLS = 4
STEPS = 2000
SAVE_EVERY = 10


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_again_and_again_it_ends_bitwise_the_same(tmp_path):
    write_text(tmp_path)
    text = CONFIG.replace("epochs = 3", "epochs = 400")
    config = write_config(tmp_path, text, **ADAPTIVE)
    overrides = ("--training.eval_every", "50", "--training.max_steps", str(STEPS))
    run(config, tmp_path / "whole", *overrides)
    output, rng = tmp_path / "killed", random.Random(0)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    kills = while_saving = 0  # a save that a kill cuts short leaves hidden files
    while kills < KILLS or (not while_saving and kills < 3 * KILLS):
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
    assert after["step"] < STEPS, "the run was over before it was killed often enough"
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
                path.name.startswith(".")
                for folder in folders
                if folder.exists()
                for path in folder.iterdir()
            ),
        )
        saves -= saving and not before


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
    """In a process of its own, which ends before its n-th os.replace, or after the
    last one."""
    child = os.fork()
    if child == 0:
        real, seen = os.replace, []

        def replace(*args):
            if len(seen) == n:
                os._exit(0)
            seen.append(1)
            real(*args)

        os.replace = replace
        status = 1  # an error must not return into the tests of the parent
        try:
            bilm.save(target)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


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
