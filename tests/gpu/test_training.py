"""On a GPU: training learns what it learns on the CPU, waits for nothing, resumes, and
talks through NCCL."""

import os
import subprocess
import sys
import time

import pytest
import torch

from spacy_elmo.bilm.kernels import force
from spacy_elmo.models import read_card
from spacy_elmo.pretrain import checkpoint, perplexity
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.pretrain.loop import pretrain
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.pretrain.optimizers import adam
from spacy_elmo.text.corpus import build_corpus

from ..pretrain.runs import (
    CONFIG,
    OBJECTIVES,
    SAMPLED,
    command,
    log,
    run,
    write_config,
    write_text,
)
from ..pretrain.test_step import one_step
from . import DEVICE, needs_gpu

pytestmark = needs_gpu

ON_GPU = CONFIG.replace('device = "cpu"', f'device = "{DEVICE}"')
NO_CLIPS = "cell_clip = null\nproj_clip = null\nchar_dim"
EACH = pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)


def losses(output):
    return [row["loss"] for row in log(output)]


@EACH
@pytest.mark.parametrize("clips", [True, False], ids=["clips", "cuDNN"])
@pytest.mark.parametrize("kernels", [{}, {"lstm": "gpu_lstm"}], ids=str)
def test_losses_are_those_of_the_cpu(tmp_path, objective, clips, kernels):
    write_text(tmp_path)
    found = {}
    for device in ("cpu", DEVICE):
        text = CONFIG.replace('device = "cpu"', f'device = "{device}"\ndropout = 0.0')
        if not clips:
            text = text.replace(
                "char_dim", "cell_clip = null\nproj_clip = null\nchar_dim"
            )
        config = read_config(write_config(tmp_path, text, **objective))
        with force(**(kernels if device == DEVICE else {})):
            pretrain(config, tmp_path / device)
        found[device] = losses(tmp_path / device)
    assert found[DEVICE] == pytest.approx(found["cpu"], rel=1e-3)


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
@pytest.mark.parametrize("clips", [True, False], ids=["clips", "cuDNN"])
@EACH
def test_what_it_learnt_there_it_knows_on_the_cpu(
    tmp_path, precision, clips, objective
):
    write_text(tmp_path)
    text = ON_GPU if clips else ON_GPU.replace("char_dim", NO_CLIPS)
    config = write_config(tmp_path, text, **objective)
    run(config, tmp_path / "out", "--training.precision", precision)
    card = read_card(tmp_path / "out" / "model-best")
    found = card["dev_perplexity"]["mean"]
    model = LanguageModel.load(tmp_path / "out" / "model-best")
    lines = [line.split() for line in (tmp_path / "dev.txt").open()]
    dev = build_corpus(lines, vocab=model.bilm.vocab)
    assert perplexity(model, dev).mean == pytest.approx(found, rel=1e-3)
    assert found < 8


@pytest.mark.parametrize("objective", ["full", "adaptive"])
@pytest.mark.parametrize("kernels", [{}, {"lstm": "gpu_lstm"}], ids=str)
@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_a_step_waits_for_nothing(objective, kernels, precision):
    _, step = one_step(objective, adam(), DEVICE, precision)
    with force(**kernels):
        step()  # compiles kernels, and takes memory
        torch.cuda.set_sync_debug_mode("error")
        try:
            step()
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_a_run_resumes_where_it_was(tmp_path):
    write_text(tmp_path)
    config = write_config(tmp_path, ON_GPU.replace("epochs = 3", "epochs = 60"))
    process = subprocess.Popen(command(config, tmp_path / "out"))
    while process.poll() is None and not (tmp_path / "out" / "model-best").exists():
        time.sleep(0.05)
    process.terminate()
    process.wait()
    step = checkpoint.read_progress(tmp_path / "out")["step"]
    assert 0 < step < 60 * 23
    run(config, tmp_path / "out")
    assert checkpoint.read_progress(tmp_path / "out")["step"] == 60 * 23


@pytest.mark.parametrize("gradients", ["afterwards", "overlapped"])
def test_one_process_of_torchrun_talks_through_nccl(tmp_path, gradients):
    write_text(tmp_path)
    config = write_config(tmp_path, ON_GPU, **SAMPLED)
    run(config, tmp_path / "alone")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    launcher += ["--nproc-per-node=1", *command(config, tmp_path / "torchrun")[1:]]
    environment = {**os.environ, "NCCL_DEBUG": "VERSION"}
    environment["SPACY_ELMO_KERNELS"] = f"gradients={gradients}"
    done = subprocess.run(
        launcher, capture_output=True, text=True, check=True, env=environment
    )
    assert "NCCL version" in done.stdout + done.stderr
    assert losses(tmp_path / "torchrun") == pytest.approx(losses(tmp_path / "alone"))
