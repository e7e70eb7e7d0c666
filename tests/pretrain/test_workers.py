"""Several processes do what one does with all the streams."""

import os
import signal
import socket
import subprocess
import time

import pytest
import torch
from safetensors.torch import load_file

from spacy_elmo.pretrain import checkpoint
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.pretrain.loop import pretrain

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

STEPS = CONFIG.replace("epochs = 3", "epochs = 1\ndropout = 0.0").replace(
    "log_every = 5", "log_every = 2"
)


@pytest.fixture
def folder(tmp_path):
    write_text(tmp_path)
    return tmp_path


def weights(output):
    both = (
        load_file(output / "model-last" / name)
        for name in ("weights.safetensors", "softmax.safetensors")
    )
    return {name: array for arrays in both for name, array in arrays.items()}


def same(one, other):
    losses = [[row["loss"] for row in log(output)] for output in (one, other)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5) and len(losses[0]) > 5
    for name, array in weights(one).items():
        assert torch.allclose(array, weights(other)[name], atol=2e-4), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "objective", [{}, ADAPTIVE, SAMPLED], ids=["full", "adaptive", "sampled"]
)
def test_two_processes_are_one(folder, objective):
    config = write_config(folder, STEPS, **objective)
    pretrain(read_config(config), folder / "one")
    run(config, folder / "two", processes=2)
    same(folder / "one", folder / "two")


def two_nodes(config, outputs, seeds=(0, 0)):
    """Start a process with an output and a seed of its own on each of two nodes, and
    return what they say; both must fail."""
    with socket.create_server(("localhost", 0)) as free:
        port = str(free.getsockname()[1])
    address = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    started = [
        subprocess.Popen(
            command(config, output, "--training.seed", str(seed)),
            env={**os.environ, **address, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank, (output, seed) in enumerate(zip(outputs, seeds, strict=True))
    ]
    said = ["".join(process.communicate(timeout=200)) for process in started]
    assert all(process.returncode for process in started)
    return said


@pytest.mark.slow
def test_nodes_that_would_train_others_are_refused(folder):
    """As with a configuration of its own on each."""
    config = write_config(folder, STEPS)
    pretrain(read_config(config), folder / "before")  # prepares the text
    said = two_nodes(config, [folder / "out"] * 2, seeds=(0, 1))
    assert all("EL125" in each for each in said)


@pytest.mark.slow
def test_nodes_that_share_no_folder(folder):
    prepare_text(folder)
    text = STEPS
    for name in ("train", "dev"):
        text = text.replace(f"{{folder}}/{name}.txt", f"{{folder}}/{name}")
    config = write_config(folder, text)
    pretrain(read_config(config), folder / "out")
    said = two_nodes(config, [folder / "out", folder / "elsewhere"])
    assert all("EL018" in each for each in said)


@pytest.mark.parametrize("objective", [{}, SAMPLED], ids=["full", "sampled"])
@pytest.mark.slow
def test_a_batch_in_parts_is_the_same_batch(folder, objective):
    config = write_config(folder, STEPS, **objective)
    pretrain(read_config(config), folder / "whole")
    in_parts = read_config(config, {"training.accumulate": 4})
    pretrain(in_parts, folder / "parts")
    same(folder / "whole", folder / "parts")


@pytest.mark.slow
def test_one_process_goes_on_with_what_two_began(folder):
    """Stopped as a scheduler does it; in parts, so that every row finds its way."""
    text = STEPS.replace("epochs = 1", "epochs = 4\naccumulate = 2")
    config = write_config(folder, text, **SAMPLED)
    pretrain(read_config(config), folder / "one")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command(config, folder / "two", processes=2),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
    )
    while process.poll() is None and not (folder / "two" / "model-best").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate()
    saved = checkpoint.read_progress(folder / "two")
    assert "Stopped after step" in said and 20 <= saved["step"] < 60, said
    pretrain(read_config(config), folder / "two")
    losses = [
        [row["loss"] for row in log(folder / name) if row["step"] <= 60]
        for name in ("one", "two")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.slow
def test_a_batch_that_can_not_be_divided(folder):
    config = write_config(folder, STEPS.replace("batch_size = 4", "batch_size = 3"))
    said = run(config, folder / "out", processes=2, fails=True)
    assert "EL037" in said and "such as 4" in said
