"""What a loader takes: at most three times the bytes of a model's arrays and 100 MB."""

import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from spacy_elmo import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.objectives import FullSoftmax
from spacy_elmo.pretrain import checkpoint
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.pretrain.optimizers import adam

from ...models import OURS
from ..many_langs import save_many_langs
from .tensor_bundles import write_bundle

# 23 million parameters, 90 MB.
LARGE = BiLMConfig(hidden_dim=2048, projection_dim=256)
NAMES = (*OURS, "checkpoint")  # `save` below writes a model in each
PROBE = """
import gc, sys
from pathlib import Path
import numpy, torch, h5py, safetensors.torch
from spacy_elmo import BiLM

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))

{prepare}
gc.collect()
before = status("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
read(Path(sys.argv[1]))
print((status("VmHWM") - before) * 1024)
"""
BILM = "read = BiLM.load\nread(Path(sys.argv[2]))"
CHECKPOINT = """
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.objectives import FullSoftmax
from spacy_elmo.pretrain import checkpoint
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.pretrain.optimizers import adam
config = BiLMConfig(hidden_dim=2048, projection_dim=256)
model = LanguageModel(BiLM.random(config), FullSoftmax(256, 1000))
optimizers = adam().make(dict(model.named_parameters()), {})
read = lambda folder: checkpoint.load(folder, model, optimizers)
"""


def peak(prepare, *args):
    """Bytes that a process takes more while it reads."""
    command = [sys.executable, "-c", PROBE.format(prepare=prepare), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def save(name, folder):
    """Write something large in a format. Return the bytes of its arrays."""
    if name == "many-langs":
        save_many_langs(folder, hidden_dim=2048, projection_dim=256)
        return 4 * BiLM.load(folder).n_parameters
    bilm = BiLM.random(LARGE)
    if name in ("bilm-tf-checkpoint", "tf-hub"):
        return save_bundle(name, bilm, folder)
    if name == "zip":
        bilm.save(folder / "model", format="bilm-tf")
        shutil.make_archive(str(folder / "model"), "zip", folder / "model")
        shutil.rmtree(folder / "model")
        return 4 * bilm.n_parameters
    if name != "checkpoint":
        bilm.save(folder, format=name)
        return 4 * bilm.n_parameters
    model = LanguageModel(bilm, FullSoftmax(256, 1000))
    optimizers = adam().make(dict(model.named_parameters()), {})
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizers[0].step()
    checkpoint.save(folder, model, optimizers, bilm.zero_state(2), {"step": 1})
    return 3 * sum(parameter.nbytes for parameter in model.parameters())


def save_bundle(name, bilm, folder):
    """Write a biLM with the names of TensorFlow's variables, and what else a training
    or a module leaves there. Return the bytes of the biLM's arrays."""
    arrays = {}
    bilm.save(folder, format="bilm-tf")
    with h5py.File(next(folder.glob("*.hdf5"))) as file:
        file.visititems(
            lambda path, item: (
                arrays.update({path: item[:]})
                if isinstance(item, h5py.Dataset)
                else None
            )
        )
    next(folder.glob("*.hdf5")).unlink()
    size = sum(array.nbytes for array in arrays.values())
    arrays = {tensorflow_name(path): array for path, array in arrays.items()}
    if name == "tf-hub":
        (folder / "options.json").unlink()
        arrays = {f"bilm/{path}": array for path, array in arrays.items()}
        arrays["aggregation/weights"] = np.zeros(LARGE.n_layers + 1, dtype="f4")
        arrays["aggregation/scaling"] = np.ones((), dtype="f4")
        write_bundle(folder / "variables" / "variables", arrays, n_shards=2)
        (folder / "tfhub_module.pb").write_bytes(b"\x08\x03")
    else:
        arrays = {f"lm/{path}": array for path, array in arrays.items()}
        arrays |= {f"{path}/Adagrad": array for path, array in arrays.items()}
        write_bundle(folder / "model.ckpt-1", arrays, n_shards=2)
        (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"\n')
    return size


def tensorflow_name(path):
    """The name of a variable of TensorFlow 1.2 and newer for that of a dump."""
    path = path.replace("RNN/MultiRNNCell/Cell", "rnn/multi_rnn_cell/cell_")
    for old, new in (("W_P_0", "projection/kernel"), ("W_0", "kernel"), ("B", "bias")):
        path = path.replace(f"LSTMCell/{old}", f"lstm_cell/{new}")
    return path


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize("name", NAMES)
def test_loading_is_bounded(name, tiny, tmp_path):
    size = save(name, tmp_path / "large")
    tiny.save(tmp_path / "tiny")
    prepare = CHECKPOINT if name == "checkpoint" else BILM
    large = tmp_path / "large" / ("model.zip" if name == "zip" else "")
    taken = peak(prepare, large, tmp_path / "tiny")
    print(f"{name}: {taken / size:.2f} times {size / 1e6:.0f} MB")  # noqa: T201
    assert taken < 3 * size + 100e6
