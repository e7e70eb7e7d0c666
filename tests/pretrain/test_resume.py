"""A run that is stopped, killed or starved goes on as if nothing had happened."""

import os
import random
import signal
import subprocess
import time

import pytest
from safetensors import safe_open

from spacy_elmo.pretrain import checkpoint

from .runs import ADAPTIVE, CONFIG, command, log, run, write_config, write_text


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


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_twenty_times_ends_bitwise_the_same(tmp_path):
    write_text(tmp_path)
    text = CONFIG.replace("epochs = 3", "epochs = 400")
    config = write_config(tmp_path, text, **ADAPTIVE)
    overrides = ("--training.eval_every", "50", "--training.max_steps", "4000")
    run(config, tmp_path / "whole", *overrides)
    output, rng = tmp_path / "killed", random.Random(0)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    kills = while_saving = 0
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
            while_saving += 1
        process.kill()
        process.wait()
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
    assert while_saving == KILLS // 2


def log_path_exists(output):
    return (output / "log.jsonl").exists()


def wait_for_a_save(process, output, rng):
    """Until files are being written aside, from the n-th time on."""
    saves, seen = rng.randint(1, 6), set()
    while process.poll() is None and len(seen) < saves:
        for folder in (output, output / "model-best", output / "model-last"):
            if folder.exists():
                now = {name for name in os.listdir(folder) if name.startswith(".")}
                if now:
                    seen.add(time.time())
