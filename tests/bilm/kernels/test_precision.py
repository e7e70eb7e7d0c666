"""float32 is float32 on a GPU too, TF32 is asked for, and no kernel ignores either."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.encode import pack
from spacy_elmo.bilm.kernels import DispatchKey, force
from spacy_elmo.bilm.kernels.plan import choose_lstm
from spacy_elmo.machine import float32_mode
from spacy_elmo.pipeline import cache
from spacy_elmo.pipeline.encoder import build_bilm, shim_of
from spacy_elmo.pretrain.config import TrainingConfig
from spacy_elmo.pretrain.workers import torch_settings

from ...fake_gpu import take_meta_for_a_gpu
from ...models import SENTENCES, needs, tiny_config

UNCLIPPED = tiny_config(cell_clip=None, proj_clip=None)


def modes():
    cudnn = torch.backends.cudnn
    backends = torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn
    return [backend.fp32_precision for backend in backends]


@pytest.mark.parametrize(
    ("precision", "expected"),
    [("float32", "ieee"), ("half", "ieee"), ("tf32", "tf32")],
)
def test_modes_are_set_and_restored(precision, expected):
    before = modes()
    with float32_mode(precision, "cuda"):
        assert modes() == [expected] * 3
    assert modes() == before
    with float32_mode(precision, "cpu"):
        assert modes() == before


class Recorder(TorchDispatchMode):
    """The modes under which convolutions and multiplications run."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in ("convolution", "mm", "addmm", "addmm_"):
            self.found.setdefault(name, set()).add(tuple(modes()))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("precision", ["float32", "tf32"])
@pytest.mark.parametrize("kernel", ["char_cnn", "definition"])
def test_a_whole_model_computes_in_its_mode(kernel, precision, monkeypatch):
    """On a device without data, which is taken for a GPU."""
    take_meta_for_a_gpu(monkeypatch)
    bilm = BiLM.empty(tiny_config()).eval().set_precision(precision)
    before = modes()
    with torch.no_grad(), Recorder() as recorder, force(token_encoder=kernel):
        bilm(pack(SENTENCES))
    assert ("convolution" in recorder.found) == (kernel == "definition")
    assert len(recorder.found) > 1
    mode = "tf32" if precision == "tf32" else "ieee"
    assert set.union(*recorder.found.values()) == {(mode,) * 3}
    assert modes() == before


@pytest.mark.parametrize(("precision", "mode"), [("float32", "ieee"), ("tf32", "tf32")])
def test_training_is_in_tf32_only_where_it_is_asked_for(precision, mode, monkeypatch):
    monkeypatch.setattr(torch.random, "fork_rng", lambda _: torch.enable_grad())
    before, gpu = modes(), torch.device("cuda")
    with torch_settings(TrainingConfig(precision=precision), gpu):
        assert modes() == [mode] * 3
        with float32_mode("float32", "cuda"):  # of an evaluation
            assert modes() == ["ieee"] * 3
    assert modes() == before


def test_cudnn_is_refused_where_it_would_ignore_the_precision():
    case = DispatchKey("cuda", "half")
    assert choose_lstm(case, UNCLIPPED, 2) == "gpu_lstm"
    assert choose_lstm(DispatchKey("cuda", "tf32"), UNCLIPPED, 2) == "cudnn_lstm"
    with force(lstm="cudnn_lstm"), pytest.raises(ValueError, match="EL150"):
        choose_lstm(case, UNCLIPPED, 2)


def test_layers_are_kept_for_a_precision_and_a_gpu(monkeypatch):
    needs("half")
    shim = shim_of(build_bilm(**tiny_config().to_dict()))
    shim.set_weights(BiLM.random(tiny_config()), "test")
    found = [cache.context_of(shim)]
    shim.bilm.set_precision("half")
    found.append(cache.context_of(shim))
    gpu = torch.device("cuda")
    monkeypatch.setattr(BiLM, "device", gpu)
    for name in ("NVIDIA H100", "NVIDIA A100"):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _, name=name: name)
        found.append(cache.context_of(shim))
    assert len(set(found)) == 4
