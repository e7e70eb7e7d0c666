"""Small runs for tests: a text, a configuration, and how to start them."""

import json
import os
import signal
import subprocess
import sys

import torch
from safetensors import safe_open

from spacy_elmo.pretrain import checkpoint, loop
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.text import Request, prepare

TEXT = [
    ["the", "cat", "sat", "on", "the", "mat"],
    ["a", "dog", "sat"],
    ["the", "end"],
] * 8

CONFIG = """
[text]
train = ["{folder}/train.txt"]
dev = ["{folder}/dev.txt"]
tokenizer = "whitespace"

[vocab]
size = 40

[model]
hidden_dim = 16
projection_dim = 8
char_dim = 4
filters = [[1, 8], [3, 8]]

[training]
batch_size = 4
unroll_steps = 6
epochs = 3
eval_every = 20
save_every = 10
log_every = 5
threads = 1
device = "cpu"

[training.optimizer]
@optimizers = "spacy-elmo.Adam.v1"
learn_rate = 0.01
"""
ADAPTIVE = {
    "training.objective": {
        "@objectives": "spacy-elmo.AdaptiveSoftmax.v1",
        "cutoffs": [5],
    }
}
SAMPLED = {
    "training.objective": {
        "@objectives": "spacy-elmo.SampledSoftmax.v1",
        "samples": 5,
    }
}
# Every objective of this package, which all tests of training run.
OBJECTIVES = {
    "full": {"training.objective": {"@objectives": "spacy-elmo.FullSoftmax.v1"}},
    "adaptive": ADAPTIVE,
    "sampled": SAMPLED,
}


def write_text(folder):
    lines = [" ".join(sentence) for sentence in TEXT]
    (folder / "train.txt").write_text("\n".join(lines * 4))
    (folder / "dev.txt").write_text("\n".join(lines[:9]))


def prepare_text(folder, vocab_size=40):
    """Both texts, as 'spacy elmo prepare' writes them. RETURNS: settings for them."""
    request = Request(vocab_size=vocab_size)
    for name in ("train", "dev"):
        prepare([folder / f"{name}.txt"], folder / name, request, progress=False)
    return {f"text.{name}": [str(folder / name)] for name in ("train", "dev")}


def write_config(folder, text=CONFIG, **sections):
    """sections: settings to append, "training.objective" -> {name: value}."""
    for name, values in sections.items():
        lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        text += "\n".join([f"\n[{name}]", *lines, ""])
    path = folder / "run.cfg"
    path.write_text(text.format(folder=folder))
    return path


def config(folder, text=CONFIG, overrides=None, **sections):
    return read_config(write_config(folder, text, **sections), overrides)


def without_model(text):
    """The configuration of a run that goes on from a model."""
    head, tail = text.split("[model]")
    return head + "[training]" + tail.split("[training]", 1)[1]


def command(config, output, *overrides, processes=1):
    """How a user starts the trainer where there is no spaCy."""
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--standalone"]
        start += [f"--nproc-per-node={processes}"]
    return [
        *start,
        "-m",
        "spacy_elmo.pretrain",
        str(config),
        "--output",
        str(output),
        *overrides,
    ]


def run(config, output, *overrides, processes=1, fails=False):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command(config, output, *overrides, processes=processes),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    said = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, said
    return said


def log(output):
    return [json.loads(line) for line in (output / "log.jsonl").open()]


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
    # By safetensors 0.4 on torch's default device.
    with torch.device("cpu"), safe_open(output / checkpoint.FILE, "pt") as file:
        for name in list(file.keys()):
            arrays[name] = file.get_tensor(name).numpy().tobytes()
    return rows, arrays


def interrupt_at(monkeypatch, step, number=signal.SIGINT):
    """The signal comes in the middle of a step."""
    real, at = loop.train_step, step

    def train_step(*args, step, **kwargs):
        if step == at:
            os.kill(os.getpid(), number)
        return real(*args, step=step, **kwargs)

    monkeypatch.setattr(loop, "train_step", train_step)
