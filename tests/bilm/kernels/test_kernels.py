"""Each kernel, its values and gradients, against the definition run in float64."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo import BiLM
from spacy_elmo.bilm.initial_weights import draw_weights
from spacy_elmo.bilm.kernels import char_cnn, cudnn_lstm, processor
from spacy_elmo.bilm.kernels.choose import check_precision
from spacy_elmo.bilm.kernels.fast import FastCharCnnEncoder, FastLstmLayer
from spacy_elmo.bilm.kernels.forced import force
from spacy_elmo.bilm.kernels.matmul import OneDnnMatmul, TorchMatmul
from spacy_elmo.bilm.kernels.processor import Processor, Settings
from spacy_elmo.bilm.lstm import LstmLayer
from spacy_elmo.bilm.token_encoder import CharCnnEncoder

from ...models import any_token, tiny_config

# Errors of values, relative to the largest value, after up to 40 steps.
TOLERANCE = {"float64": 1e-13, "float32": 2e-6, "half": 0.03, "int8": 0.1}
# Errors of gradients, as above.
GRADIENT_TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
CLIPS = [(None, None), (0.3, None), (0.3, 0.2), (None, 0.2)]


def needs(precision):
    try:
        check_precision(precision, torch.device("cpu"))
    except ValueError:
        pytest.skip(f"no {precision} on this processor")


def error(found, expected):
    """Return the largest error, relative to the largest value."""
    scale = expected.abs().max().clamp(min=1e-30)
    return float(((found.double() - expected).abs().max() / scale).detach())


def lstm(projected, clips, seed=0, **sizes):
    """Return a fast layer with a bias, and the definition in float64 of its weights."""
    if not projected:
        width = sizes.get("hidden_dim", 12)
        sizes |= {"projection_dim": width, "lstm_projection": False}
    config = tiny_config(cell_clip=clips[0], proj_clip=clips[1], **sizes)
    generator = torch.Generator().manual_seed(seed)
    layer = FastLstmLayer(config)
    draw_weights(layer, generator)
    torch.nn.init.normal_(layer.bias, generator=generator)
    with torch.no_grad():
        layer.weight_h.mul_(0.5)  # or errors may grow from step to step
    definition = LstmLayer(config).double()
    definition.load_state_dict(layer.state_dict())
    return layer, definition


def lstm_inputs(layer, lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    batch_sizes = [sum(n > t for n in lengths) for t in range(max(lengths))]
    B, H, C = len(lengths), layer.config.projection_dim, layer.config.hidden_dim
    shapes = (sum(batch_sizes), H), (B, H), (B, C)
    x, h, c = (torch.randn(shape, generator=generator) for shape in shapes)
    return x, batch_sizes, h, c


def outputs_of(layer, inputs, dtype):
    x, batch_sizes, h, c = inputs
    return layer(x.to(dtype), batch_sizes, h.to(dtype), c.to(dtype))


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=30),
    projected=st.booleans(),
    clips=st.sampled_from(CLIPS),
    dtype=st.sampled_from(["float32", "float64"]),
    block=st.sampled_from([1, 1 << 10, 1 << 24]),
    exact=st.booleans(),
)
def test_cpu_lstm(lengths, projected, clips, dtype, block, exact):
    """Whatever the blocks that the steps come in."""
    layer, definition = lstm(projected, clips, len(lengths))
    layer.to(getattr(torch, dtype))
    layer.settings = Settings(exact=exact)
    inputs = lstm_inputs(layer, lengths)
    with (
        torch.no_grad(),
        force(lstm="cpu_lstm"),
        pytest.MonkeyPatch.context() as patch,
    ):
        for form in (TorchMatmul, OneDnnMatmul):
            patch.setattr(form, "block_bytes", block)
        found = outputs_of(layer, inputs, getattr(torch, dtype))
        expected = outputs_of(definition, inputs, torch.float64)
    for a, b in zip(found, expected):
        assert str(a.dtype) == f"torch.{dtype}" and error(a, b) < TOLERANCE[dtype]


@pytest.mark.parametrize("precision", ["half", "int8"])
@pytest.mark.parametrize("projected", [True, False])
def test_cpu_lstm_in_fewer_bits(precision, projected):
    needs(precision)
    layer, definition = lstm(projected, (3.0, 3.0), hidden_dim=64, projection_dim=32)
    layer.settings = Settings(precision)
    inputs = lstm_inputs(layer, [1, 5, 9, 20])
    with torch.no_grad():
        found = outputs_of(layer, inputs, torch.float32)
        expected = outputs_of(definition, inputs, torch.float64)
    for a, b in zip(found, expected):
        assert 1e-6 < error(a, b) < TOLERANCE[precision]


def gradients(layer, inputs, dtype):
    """Return outputs, and gradients by inputs and weights."""
    x, batch_sizes, h, c = inputs
    leaves = [tensor.to(dtype).clone().requires_grad_() for tensor in (x, h, c)]
    outputs = layer(leaves[0], batch_sizes, *leaves[1:])
    generator = torch.Generator().manual_seed(1)
    loss = sum(
        (o * torch.randn(o.shape, generator=generator).to(o.dtype)).sum()
        for o in outputs
    )
    weights = [p for p in layer.parameters() if p is not None]
    return outputs, torch.autograd.grad(loss, [*leaves, *weights])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("clips", CLIPS)
@pytest.mark.parametrize("kernel", ["autograd_lstm", "cudnn_lstm", "definition"])
def test_lstm_with_gradients(kernel, clips, projected, dtype):
    """cuDNN's form is torch's own on a CPU."""
    layer, definition = lstm(projected, clips)
    layer.to(getattr(torch, dtype))
    inputs = lstm_inputs(layer, [5, 3, 3, 1])
    if kernel == "cudnn_lstm" and clips != (None, None):
        if projected or clips[0]:
            with pytest.raises(ValueError, match="EL150"), force(lstm=kernel):
                gradients(layer, inputs, getattr(torch, dtype))
        return
    with force(lstm=kernel):
        found = gradients(layer, inputs, getattr(torch, dtype))
    expected = gradients(definition, inputs, torch.float64)
    for a, b in zip(found[0], expected[0]):
        assert error(a, b) < TOLERANCE[dtype]
    for a, b in zip(found[1], expected[1]):
        assert error(a, b) < GRADIENT_TOLERANCE[dtype]
    if clips[0]:  # the clip was at work, and the gradient respects it
        assert (expected[0][2].abs() == clips[0]).any()


def test_lstm_gradients_equal_finite_differences():
    layer, _ = lstm(True, (None, None))
    layer.double()
    x, batch_sizes, h, c = lstm_inputs(layer, [3, 2])
    leaves = [tensor.double().requires_grad_() for tensor in (x, h, c)]
    with force(lstm="autograd_lstm"):
        assert torch.autograd.gradcheck(
            lambda x, h, c: layer(x, batch_sizes, h, c), leaves
        )


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("clips", [(0.9, 0.8), (None, None)])
def test_lstm_under_autocast(clips, projected):
    """Matrix multiplications are rounded, the cells that are carried are not. With
    clips, which some values are rounded across, only outputs are compared: gradients
    jump there."""
    layer, definition = lstm(projected, clips, hidden_dim=64, projection_dim=32)
    inputs = lstm_inputs(layer, [5, 3, 3, 1])
    with torch.autocast("cpu", torch.bfloat16):
        found = gradients(layer, inputs, torch.float32)
    expected = gradients(definition, inputs, torch.float64)
    pairs = list(zip([*found[0], *found[1]], [*expected[0], *expected[1]]))
    assert all(a.dtype == torch.float32 for a, _ in pairs)
    for a, b in pairs if clips == (None, None) else pairs[:3]:
        assert 1e-6 < error(a, b) < 0.02
    assert (found[0][2] != found[0][2].bfloat16().float()).any()


CONFIG = tiny_config()
ENCODER = FastCharCnnEncoder(CONFIG)
draw_weights(ENCODER, torch.Generator().manual_seed(1))
CHAR_CNN = CharCnnEncoder(CONFIG).double()
CHAR_CNN.load_state_dict(ENCODER.state_dict())
READER = BiLM(CONFIG)


@settings(max_examples=80, deadline=None)
@given(
    words=st.lists(any_token, min_size=1, max_size=120),
    trimmed=st.booleans(),
    precision=st.sampled_from(["float32", "float64"]),
    device=st.sampled_from(["cpu", "cuda"]),
)
def test_char_cnn_of_any_words(words, trimmed, precision, device):
    """Long ones too, that leave no room for padding; also as on a GPU."""
    ids = READER.character_ids([*words, "x" * 47, "가" * 20])
    ids = torch.from_numpy(READER.trim(ids) if trimmed else ids)
    encoder = copy.deepcopy(ENCODER).to(getattr(torch, precision))
    with (
        torch.no_grad(),
        force(token_encoder="char_cnn"),
        pytest.MonkeyPatch.context() as patch,
    ):
        expected = CHAR_CNN(ids)
        if device == "cuda":
            patch.setattr(processor, "probe", lambda *_: Processor("cuda"))
            patch.setattr(char_cnn, "RESULTS_ON_GPU", 20_000)
        assert error(encoder(ids), expected) < TOLERANCE[precision]


@settings(max_examples=80, deadline=None)
@given(
    ids=st.lists(
        st.lists(st.integers(0, 3), min_size=9, max_size=9), min_size=1, max_size=9
    )
)
def test_char_cnn_of_any_ids(ids):
    """Also such as no word has: runs of equal ids, at the end or not."""
    ids = torch.tensor(ids)
    encoder = copy.deepcopy(ENCODER).double()
    with torch.no_grad():
        assert error(encoder(ids), CHAR_CNN(ids)) < TOLERANCE["float64"]


@pytest.mark.parametrize("kernel", ["char_cnn", "definition"])
def test_char_cnn_with_gradients(kernel):
    words = ["a", "cat", "고양이", "x" * 48, ""] * 3
    ids = torch.from_numpy(READER.character_ids(words))
    weights = torch.randn(len(words), CONFIG.projection_dim, dtype=torch.float64)
    found = []
    for encoder, dtype in ((ENCODER, torch.float32), (CHAR_CNN, torch.float64)):
        with force(token_encoder=kernel):
            loss = (encoder(ids) * weights.to(dtype)).sum()
        found.append(torch.autograd.grad(loss, list(encoder.parameters())))
    for a, b in zip(*found):
        assert error(a, b) < GRADIENT_TOLERANCE["float32"]


@pytest.mark.parametrize("precision", ["float32", "half", "int8"])
@pytest.mark.parametrize("exact", [False, True])
def test_whole_model(precision, exact):
    """Alone and in a batch; float32 comes back bit for bit."""
    needs(precision)
    sizes = {"hidden_dim": 64, "projection_dim": 32, "filters": ((1, 16), (3, 48))}
    bilm = BiLM.random(tiny_config(**sizes, cell_clip=3.0, proj_clip=3.0), seed=1)
    sentences = [[f"w{i * j}" for i in range(j)] for j in (3, 9, 5, 17, 1)]
    before = bilm.encode(sentences)
    with force(token_encoder="definition", lstm="definition", matmul="torch"):
        bilm.double().token_cache.clear()
        expected = bilm.encode(sentences)
        bilm.float()
    bilm.set_precision(precision).set_exact(exact)
    for sentence, found, layers in zip(sentences, bilm.encode(sentences), expected):
        wanted = torch.from_numpy(layers).double()
        least = 0 if precision == "float32" else 1e-5  # or nothing was rounded
        assert least < error(torch.from_numpy(found), wanted) < TOLERANCE[precision]
        (alone,) = bilm.encode([sentence])
        assert error(torch.from_numpy(alone), wanted) < TOLERANCE[precision]
    bilm.set_precision("float32").set_exact(False)
    for a, b in zip(before, bilm.encode(sentences)):
        assert (a == b).all()


@pytest.mark.parametrize("projected", [True, False])
def test_weights_for_cudnn_are_flattened_once(projected, monkeypatch):
    """And again when they change; the definition's results on both occasions."""
    calls = []
    flatten = cudnn_lstm.flatten
    monkeypatch.setattr(
        cudnn_lstm, "flatten", lambda *a, **k: calls.append(1) or flatten(*a, **k)
    )
    layer, definition = lstm(projected, (None, None))
    x, batch_sizes, h, c = lstm_inputs(layer, [5, 3, 3, 1])
    state = h.double(), c.double()
    with torch.no_grad(), force(lstm="cudnn_lstm"):
        for times in (1, 2):
            for _ in range(3):
                found = layer(x, batch_sizes, h, c)
            assert len(calls) == times
            for a, b in zip(found, definition(x.double(), batch_sizes, *state)):
                assert error(a, b) < TOLERANCE["float32"]
            layer.bias.add_(0.5)
            definition.bias.add_(0.5)
