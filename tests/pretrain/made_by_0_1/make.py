"""Make the files of this folder, with spacy-elmo 0.1.0 (commit 9e7fe1e) installed:

    python make.py        (in an empty folder, OMP_NUM_THREADS=1)

Text as files and prepared; runs that were stopped after 34 of their 69 steps; and, as
NAME.expected.safetensors, the weights that the same run ends with undisturbed.
"""

import os
import shutil
import signal
import tempfile
from pathlib import Path

from safetensors.torch import load_file, save_file
from spacy_elmo.pretrain.prepare import Request, prepare

from spacy_elmo.pretrain import loop
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.pretrain.stop import Stopped

CONFIG = """\
[text]
train = ["{train}"]
dev = ["{dev}"]

[vocab]
size = 40

[model]
hidden_dim = 8
projection_dim = 4
char_dim = 2
filters = [[1, 4], [2, 4]]

[training]
batch_size = 4
unroll_steps = 6
epochs = 3
eval_every = 20
save_every = 10
log_every = 5
threads = 1
device = "cpu"
"""
ADAPTIVE = """
[training.objective]
@objectives = "spacy-elmo.AdaptiveSoftmax.v1"
cutoffs = [5]
"""
SAMPLED = """
[training.objective]
@objectives = "spacy-elmo.SampledSoftmax.v1"
samples = 5
"""
ADAM = """
[training.optimizer]
@optimizers = "spacy-elmo.Adam.v1"
learn_rate = 0.01
"""
ADAGRAD = """
[training.optimizer]
@optimizers = "spacy-elmo.Adagrad.v1"
learn_rate = 0.1
"""
SGD = """
[training.optimizer]
@optimizers = "spacy-elmo.SGD.v1"
learn_rate = 1.0
"""
STABLE = """
[training.schedule]
@schedules = "spacy-elmo.WarmupStableDecay.v1"
warmup_steps = 5
decay_steps = 20
"""
RUNS = {
    "adaptive": ADAPTIVE + ADAM,
    "sampled_adam": SAMPLED + ADAM + STABLE,
    "sampled_adagrad": SAMPLED + ADAGRAD,
    "full_sgd": SGD,
}
STOP_AT = 33
COMMAND = "python -m spacy elmo pretrain"


def write_texts():
    sentences = ["the cat sat on the mat", "a dog sat", "the end"] * 8
    Path("text").mkdir()
    Path("text/train.txt").write_text("\n".join(sentences * 4))
    Path("text/dev.txt").write_text("\n".join(sentences[:9]))
    for name in ("train", "dev"):
        prepare(
            [Path(f"text/{name}.txt")],
            Path(f"prepared/{name}"),
            Request(vocab_size=40),
            progress=False,
        )


def train_whole(name, config):
    with tempfile.TemporaryDirectory() as folder:
        loop.pretrain(config, Path(folder), command=COMMAND)
        last = Path(folder) / "model-last"
        arrays = {
            f"{part}.{key}": array
            for part in ("weights", "softmax")
            for key, array in load_file(last / f"{part}.safetensors").items()
            if key != "cutoffs"
        }
    save_file(arrays, f"{name}.expected.safetensors")


def train_half(name, config):
    real = loop.Run._train_step

    def step(run, *args):
        if run.step == STOP_AT:
            os.kill(os.getpid(), signal.SIGTERM)
        real(run, *args)

    loop.Run._train_step = step
    try:
        loop.pretrain(config, Path(name), command=COMMAND)
    except Stopped as stopped:
        print(stopped)
    loop.Run._train_step = real
    shutil.rmtree(Path(name) / "model-last")


if __name__ == "__main__":
    write_texts()
    for name, blocks in RUNS.items():
        where = "text/{}.txt" if name == "adaptive" else "prepared/{}"
        files = {key: where.format(key) for key in ("train", "dev")}
        Path(f"{name}.cfg").write_text(CONFIG.format(**files) + blocks)
        config = read_config(Path(f"{name}.cfg"))
        train_whole(name, config)
        train_half(name, config)
