"""The LSTM of both directions for GPUs against the definition in float64: its steps in
plain PyTorch, and in Triton by its interpreter."""

import importlib.util
import re
import sys
from importlib.metadata import version

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.kernels import gpu_lstm, gpu_steps
from spacy_elmo.bilm.kernels.kernel import force
from spacy_elmo.bilm.lstm import LstmLayer
from spacy_elmo.machine import float32_mode

from ...models import SENTENCES, tiny_config

SIZES = [  # rows of each step, columns of the input and output, cells
    ([3], 5, 7),
    ([5, 5, 3, 1], 19, 37),
    ([2, 2, 1], 70, 260),
]
# Relative to the largest value. Triton's interpreter can't compute in bfloat16.
TOLERANCES = {torch.float32: 3e-6, torch.float16: 6e-3}
# Triton's modules, but for those in C, which can't be loaded twice, and our own.
IMPORTED_ANEW = re.compile(r"triton(?!\._C)(\..*)?$|.*\.triton_steps$").match
WEIGHTS = ("weight_x", "weight_h", "bias", "weight_p")


@pytest.fixture(scope="module")
def triton_steps():
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    release = tuple(map(int, version("triton").split(".")[:2]))
    if release < (3, 7) and np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        pytest.skip("the interpreter of Triton 3.6 does not know NumPy 2.4")
    before = {*filter(IMPORTED_ANEW, sys.modules)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")  # read when Triton is imported
        for name in before:
            patch.delitem(sys.modules, name)
        from spacy_elmo.bilm.kernels import triton_steps

        yield triton_steps
    # The others would be parts of packages that are gone.
    for name in {*filter(IMPORTED_ANEW, sys.modules)} - before:
        del sys.modules[name]


def make_layers(clip: float | None, columns: int, cells: int) -> list[LstmLayer]:
    config = BiLMConfig(
        hidden_dim=cells, projection_dim=columns, cell_clip=clip, proj_clip=clip
    )
    layers = [LstmLayer(config).double() for _ in range(2)]
    for layer in layers:
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter, std=columns**-0.5)
    return layers


def make_inputs(batch_sizes: list[int], columns: int, cells: int) -> list[Tensor]:
    shapes = (
        (sum(batch_sizes), columns),
        (batch_sizes[0], columns),
        (batch_sizes[0], cells),
    )
    return [0.5 * torch.randn(2, *shape, dtype=torch.float64) for shape in shapes]


def defined(layers, batch_sizes, inputs, gradients):
    """Outputs and gradients of the definition."""
    leaves = [tensor.requires_grad_() for tensor in inputs]
    x, h, c = leaves
    each = [layer(x[d], batch_sizes, h[d], c[d]) for d, layer in enumerate(layers)]
    outputs = [torch.stack(both) for both in zip(*each)]
    torch.autograd.backward(outputs, gradients)
    weights = [
        torch.stack([getattr(layer, n).grad for layer in layers]) for n in WEIGHTS
    ]
    return outputs, [x.grad, *weights, h.grad, c.grad]


def leaves_of(layers, inputs, device="cpu"):
    """The tensors that the layers of both directions take, in float32."""
    config = layers[0].config
    weights = [torch.stack([getattr(layer, n) for layer in layers]) for n in WEIGHTS]
    weights[2][:, 2 * config.hidden_dim : 3 * config.hidden_dim] += config.forget_bias
    x, h, c = inputs
    tensors = (x, *weights, h, c)
    return [tensor.detach().float().to(device).requires_grad_() for tensor in tensors]


def compute(steps, layers, batch_sizes, leaves, dtype):
    """Outputs of the layers of both directions by the functions of one step."""
    clips = layers[0].config.cell_clip, layers[0].config.proj_clip
    settings = gpu_lstm.Settings(steps, batch_sizes, *clips, dtype)
    return gpu_lstm.BiLstmLayer.apply(settings, *leaves)


def assert_close(found, wanted, tolerance):
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        assert (a.double() - b).abs().max() <= tolerance * b.abs().max()


def check(steps, sizes, clip, dtype):
    torch.manual_seed(0)
    layers, inputs = make_layers(clip, *sizes[1:]), make_inputs(*sizes)
    x, h, c = inputs
    # Also gradients whose rows do not lie one behind the other.
    gradients = [torch.randn_like(tensor.mT.contiguous()).mT for tensor in (x, h, c)]
    wanted, wanted_gradients = defined(layers, sizes[0], inputs, gradients)
    leaves = leaves_of(layers, inputs)
    outputs = compute(steps, layers, sizes[0], leaves, dtype)
    assert_close(outputs, wanted, TOLERANCES[dtype])
    found = torch.autograd.grad(outputs, leaves, [g.float() for g in gradients])
    assert_close(found, wanted_gradients, TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("clip", [None, 0.4])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_steps_in_pytorch(sizes, clip, dtype):
    check(gpu_steps, sizes, clip, dtype)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("clip", [None, 0.4])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_steps_in_triton(sizes, clip, dtype, triton_steps):
    check(triton_steps, sizes, clip, dtype)


def test_clips_of_triton_keep_what_is_not_a_number(triton_steps):
    """Which Triton's minimum and maximum do not, on a GPU."""
    gates, r = torch.randn(2, 3, 20), torch.randn(2, 3, 20)
    gates[0, 1, 17] = torch.nan
    before, c, low_m = (torch.randn(2, 3, 5) for _ in range(3))
    triton_steps.cell(0.4, gates, r, before, c, low_m)
    assert c.isnan().nonzero().tolist() == [[0, 1, 2]]
    assert low_m.isnan().nonzero().tolist() == [[0, 1, 2]]
    m = torch.full((2, 3, 5), torch.nan)
    y, low_y = torch.zeros(2, 3, 4), torch.zeros(2, 3, 4)
    triton_steps.project(0.4, m, torch.randn(2, 5, 4), y, low_y)
    assert y.isnan().all() and low_y.isnan().all()


def test_triton_projects_in_tf32_where_it_is_asked_for(triton_steps):
    low_m, low_w, y, low_y = (torch.randn(2, 16, 16) for _ in range(4))
    for precision in ("float32", "tf32"):
        with float32_mode(precision, "cuda"):
            triton_steps.project(None, low_m, low_w, y, low_y)
        torch.testing.assert_close(y, torch.bmm(low_m, low_w), atol=1e-2, rtol=0)


class Zeros(TorchDispatchMode):
    """Notes the sizes of arrays of zeros."""

    found = ()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if "zeros" in func.overloadpacket.__name__:
            self.found = (*self.found, result.numel())
        return result


def test_no_gradient_is_made_for_what_is_kept():
    sizes = [3, 2], 5, 7
    layers, (x, h, c) = make_layers(0.4, *sizes[1:]), make_inputs(*sizes)
    y, _, _ = gpu_lstm.run(*layers, x, sizes[0], h, c, torch.float64)
    with Zeros() as zeros:
        y.sum().backward()
    assert max(zeros.found) == c.numel()


def test_run_takes_two_layers():
    sizes = [3, 2], 5, 7
    layers, inputs = make_layers(0.4, *sizes[1:]), make_inputs(*sizes)
    gradients = [torch.randn_like(tensor) for tensor in inputs]
    wanted, wanted_gradients = defined(layers, sizes[0], inputs, gradients)
    for layer in layers:
        layer.zero_grad()
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    x, h, c = leaves
    found = gpu_lstm.run(*layers, x, sizes[0], h, c, torch.float64)
    torch.autograd.backward(found, gradients)
    assert_close(found, wanted, 1e-12)
    weights = [
        torch.stack([getattr(layer, n).grad for layer in layers]) for n in WEIGHTS
    ]
    assert_close([x.grad, *weights, h.grad, c.grad], wanted_gradients, 1e-12)


@pytest.mark.parametrize("skip_connections", [False, True])
@pytest.mark.parametrize("clip", [None, 0.1])
def test_a_model_reads_with_it_as_by_definition(clip, skip_connections):
    config = tiny_config(
        cell_clip=clip, proj_clip=clip, skip_connections=skip_connections, n_layers=3
    )
    bilm = BiLM.random(config, seed=1)
    with force(token_encoder="definition", lstm="definition"):
        wanted = bilm.encode(SENTENCES)
    with force(lstm="gpu_lstm"):
        found = bilm.encode(SENTENCES)
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        assert not a.size or abs(a - b).max() <= 1e-6 * abs(b).max()


def test_no_model_without_a_projection():
    bilm = BiLM.random(tiny_config(lstm_projection=False, hidden_dim=6), seed=1)
    with pytest.raises(ValueError, match="EL150"), force(lstm="gpu_lstm"):
        bilm.encode(SENTENCES)
