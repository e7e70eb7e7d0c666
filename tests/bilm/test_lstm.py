"""The LSTM layer with and without its gradient, held against the textbook's loop."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.bilm.kernels import cpu_lstm as lstm_inference
from spacy_elmo.bilm.kernels.autograd_lstm import TrainedLayer
from spacy_elmo.bilm.lstm import LstmpLayer

from ..models import tiny_config


def textbook(
    x_NI, weight_x, weight_h, bias, weight_p, h, c, batch_sizes, cell_clip, proj_clip
):
    """The same layer step by step, with nothing but differentiable operations."""
    C = c.shape[1]
    outputs, start = [], 0
    for b in batch_sizes:
        z = x_NI[start : start + b] @ weight_x + h[:b] @ weight_h + bias
        start += b
        o, i, f, g = z.split(C, dim=1)
        c_new = torch.sigmoid(f) * c[:b] + torch.sigmoid(i) * torch.tanh(g)
        if cell_clip is not None:
            c_new = c_new.clamp(-cell_clip, cell_clip)
        h_new = torch.sigmoid(o) * torch.tanh(c_new)
        if weight_p is not None:
            h_new = h_new @ weight_p
            if proj_clip is not None:
                h_new = h_new.clamp(-proj_clip, proj_clip)
        h, c = torch.cat([h_new, h[b:]]), torch.cat([c_new, c[b:]])
        outputs.append(h_new)
    return torch.cat(outputs), h, c


def inputs(projected, seed=0):
    generator = torch.Generator().manual_seed(seed)
    H, C, batch_sizes = (3 if projected else 5), 5, [4, 4, 3, 1, 1]
    shapes = [
        (sum(batch_sizes), 2), (2, 4 * C), (H, 4 * C), (4 * C,), (C, H), (4, H), (4, C),
    ]  # fmt: skip
    tensors = [
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in shapes
    ]
    if not projected:
        tensors[4] = None
    return tensors, batch_sizes


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("clips", [(None, None), (0.3, None), (0.3, 0.2), (None, 0.2)])
def test_outputs_and_gradients_equal_autograd(projected, clips):
    tensors, batch_sizes = inputs(projected)
    leaves = [t for t in tensors if t is not None]
    found = TrainedLayer.apply(*tensors, batch_sizes, *clips, torch.float64)
    expected = textbook(*tensors, batch_sizes, *clips)
    for a, b in zip(found, expected):
        assert torch.allclose(a, b, atol=1e-12)
    weights = [torch.randn_like(output) for output in expected]
    grads = [
        torch.autograd.grad(
            sum((o * w).sum() for o, w in zip(outputs, weights)), leaves
        )
        for outputs in (found, expected)
    ]
    for a, b in zip(*grads):
        assert torch.allclose(a, b, atol=1e-10)
    if clips[0]:  # the clip was at work, and the gradient knows it
        assert (found[2].abs() == clips[0]).any()


def test_gradients_equal_finite_differences():
    tensors, batch_sizes = inputs(projected=True, seed=1)
    assert torch.autograd.gradcheck(
        lambda *t: TrainedLayer.apply(*t, batch_sizes, None, None, torch.float64),
        tensors,
    )


@pytest.mark.parametrize("projected", [True, False])
def test_rounded_factors(projected):
    """Near what comes of exact ones, gradients too, and the state is not rounded."""
    tensors, batch_sizes = inputs(projected)
    leaves = [t for t in tensors if t is not None]
    exact, low = (
        TrainedLayer.apply(*tensors, batch_sizes, 0.9, 0.8, factors)
        for factors in (torch.float64, torch.bfloat16)
    )
    grads = [torch.autograd.grad(sum(y.sum() for y in o), leaves) for o in (exact, low)]
    for a, b in zip([*exact, *grads[0]], [*low, *grads[1]]):
        assert b.dtype == torch.float64
        error = (a - b).norm() / a.norm()
        assert 0 < error < 0.05
    rounded = low[2].to(torch.bfloat16).double()
    assert (low[2] != rounded).any()


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=30),
    projected=st.booleans(),
    clips=st.sampled_from([(None, None), (0.3, None), (0.3, 0.2), (None, 0.2)]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    block=st.sampled_from([1, 1 << 10, 1 << 24]),
)
def test_inference_equals_the_textbook(lengths, projected, clips, dtype, block):
    """Whatever the blocks that the steps come in."""
    sizes = {} if projected else {"projection_dim": 12, "lstm_projection": False}
    config = tiny_config(cell_clip=clips[0], proj_clip=clips[1], **sizes)
    generator = torch.Generator().manual_seed(len(lengths))
    layer = LstmpLayer(config)
    layer.reset_parameters(generator)
    torch.nn.init.normal_(layer.bias, generator=generator)
    layer = layer.to(dtype)
    batch_sizes = [sum(n > t for n in lengths) for t in range(max(lengths))]
    B, H, C = len(lengths), config.projection_dim, config.hidden_dim
    x, h, c = (
        torch.randn(shape, generator=generator, dtype=dtype)
        for shape in ((sum(batch_sizes), H), (B, H), (B, C))
    )
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(lstm_inference, "BLOCK_BYTES", block)
        found = layer(x, batch_sizes, h, c)
        weights = layer.weight_x, layer.weight_h, layer._bias(), layer.weight_p
        expected = textbook(x, *weights, h, c, batch_sizes, *clips)
    for a, b in zip(found, expected):
        assert a.dtype == dtype
        assert torch.allclose(a, b, atol=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("projected", [True, False])
def test_torch_lstm_gives_the_same(projected):
    """What a GPU runs where there are no clips: outputs, state and gradients."""
    sizes = {} if projected else {"projection_dim": 12, "lstm_projection": False}
    config = tiny_config(cell_clip=None, proj_clip=None, **sizes)
    torch.manual_seed(0)
    layer = LstmpLayer(config)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    torch.nn.init.normal_(layer.bias)
    H = config.projection_dim
    batch_sizes = [3, 3, 3, 2, 1]
    x, h = torch.randn(sum(batch_sizes), H), torch.randn(3, H)
    c = torch.randn(3, config.hidden_dim)
    leaves = [p for p in layer.parameters() if p is not None]
    results = []
    for run in (
        lambda: layer(x, batch_sizes, h, c),
        lambda: layer.fused(x, batch_sizes, h, c),
    ):
        outputs = run()
        loss = sum((o * torch.arange(o.numel()).view_as(o)).sum() for o in outputs)
        results.append((outputs, torch.autograd.grad(loss, leaves)))
    for ours, theirs in zip(*results):
        for a, b in zip(ours, theirs):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-5)
