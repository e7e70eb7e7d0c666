"""Every registered kernel, its values and gradients, against the definition run in
float64. A kernel that is added to plan.py is tested here."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.speed import on_threads
from spacy_elmo import BiLM
from spacy_elmo.bilm.encode import pack
from spacy_elmo.bilm.kernels import char_cnn, cudnn_lstm, torch_lstm
from spacy_elmo.bilm.kernels.kernel import DispatchKey, Inputs, dispatch_key_of, force
from spacy_elmo.bilm.kernels.plan import LSTM_KERNELS, TOKEN_KERNELS
from spacy_elmo.bilm.lstm import BiLMState, LstmState
from spacy_elmo.bilm.model import BidirectionalLM

from ...models import any_token, needs, tiny_config

# Errors of values, relative to the largest value, after up to 40 steps.
TOLERANCE = {"float64": 1e-13, "float32": 5e-6, "half": 0.03}
# Errors of gradients, as above.
GRADIENT_TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
CLIPS = [(None, None), (0.3, None), (0.3, 0.2), (None, 0.2)]
UNCLIPPED = tiny_config(cell_clip=None, proj_clip=None)
TRAINING = DispatchKey(gradient=True)
LEARNING = [n for n, k in LSTM_KERNELS.items() if k.can_run(TRAINING, UNCLIPPED)]
READING = [name for name in LSTM_KERNELS if name not in LEARNING]


def error(found, expected):
    """Return the largest error, relative to the largest value."""
    scale = expected.abs().max().clamp(min=1e-30)
    return float(((found.double() - expected).abs().max() / scale).detach())


def models(seed=0, projected=True, clips=(None, None), **sizes):
    """Return a biLM with biases, and the definition in float64 of its weights."""
    if not projected:
        width = sizes.get("hidden_dim", 12)
        sizes |= {"projection_dim": width, "lstm_projection": False}
    config = tiny_config(cell_clip=clips[0], proj_clip=clips[1], **sizes)
    bilm = BiLM.random(config, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in bilm.named_parameters():
            if name.endswith("bias"):
                weight.normal_(generator=generator)
            elif name.endswith("weight_h"):
                weight.mul_(0.5)  # or errors may grow from step to step
    definition = BidirectionalLM(config).double()
    definition.load_state_dict(bilm.state_dict())
    return bilm, definition


def inputs_of(config, lengths, dtype=torch.float64, n_words=9):
    """Return token vectors, rows of both directions, batch sizes and first states."""
    random = torch.Generator().manual_seed(sum(lengths))
    sizes = [sum(n > t for n in lengths) for t in range(max(lengths))]
    B, L, N = len(lengths), config.n_layers, sum(sizes)
    H, C = config.projection_dim, config.hidden_dim
    x_VH = torch.randn(n_words, H, generator=random)
    rows = [torch.randint(n_words, (N,), generator=random) for _ in range(2)]
    parts = [
        LstmState(
            torch.randn(L, B, H, generator=random).to(dtype),
            torch.randn(L, B, C, generator=random).to(dtype),
        )
        for _ in range(2)
    ]
    return x_VH.to(dtype), *rows, sizes, BiLMState(*parts)


def flat(results):
    ahead, back, state = results
    return [*ahead, *back, *state.forward, *state.backward]


@pytest.mark.parametrize("kernels", [LSTM_KERNELS, TOKEN_KERNELS])
def test_each_kernel_can_run_somewhere(kernels):
    """Or none of these tests would run it."""
    keys = [
        DispatchKey(device, gradient=gradient, instructions=instructions)
        for device in ("cpu", "cuda")
        for gradient in (False, True)
        for instructions in (None, "avx2")
    ]
    for kernel in kernels.values():
        assert any(kernel.can_run(key, UNCLIPPED) for key in keys)


def run(name, kernels, method, module, case, *inputs):
    kernel = kernels[name]
    return getattr(kernel, method)(module, kernel.prepare(module, case), *inputs)


@pytest.mark.parametrize("name", LSTM_KERNELS)
@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=20),
    projected=st.booleans(),
    clips=st.sampled_from(CLIPS),
    dtype=st.sampled_from(["float32", "float64"]),
    cells=st.sampled_from([5, 12, 33]),
    n_layers=st.integers(1, 3),
    residual=st.booleans(),
)
def test_lstm(name, lengths, projected, clips, dtype, cells, n_layers, residual):
    lengths = sorted(lengths, reverse=True)
    sizes = {"n_layers": n_layers, "skip_connections": residual}
    bilm, definition = models(len(lengths), projected, clips, hidden_dim=cells, **sizes)
    bilm.to(getattr(torch, dtype))
    case = dispatch_key_of(bilm.forward_lstm.layers[0].weight_x, "float32")
    case = case._replace(gradient=False)
    if not LSTM_KERNELS[name].can_run(case, bilm.config):
        return
    with torch.no_grad():
        inputs = inputs_of(bilm.config, lengths, getattr(torch, dtype))
        found = run(name, LSTM_KERNELS, "read", bilm, case, Inputs(*inputs))
        expected = definition.read(*inputs_of(bilm.config, lengths))
    for a, b in zip(flat(found), flat(expected), strict=True):
        assert str(a.dtype) == f"torch.{dtype}"
        assert error(a, b) < TOLERANCE[dtype]


@pytest.mark.parametrize("rows", [0.5, 3])
def test_blocks_of_gates(rows, monkeypatch):
    """A block has at least one row, even if a row has more gates than it should."""
    bilm, definition = models()
    n_bytes = int(rows * 16 * bilm.config.hidden_dim)
    monkeypatch.setattr(torch_lstm, "BLOCK_BYTES", n_bytes)
    with torch.no_grad(), force(lstm="torch_lstm"):
        found = bilm.fast.read(*inputs_of(bilm.config, [8, 3, 1], torch.float32))
        expected = definition.read(*inputs_of(bilm.config, [8, 3, 1]))
    for a, b in zip(flat(found), flat(expected), strict=True):
        assert error(a, b) < TOLERANCE["float32"]


@pytest.mark.parametrize("name", READING)
@settings(max_examples=10, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 20), min_size=2, max_size=9),
    projected=st.booleans(),
    cells=st.sampled_from([5, 12, 33]),
    n_layers=st.integers(1, 2),
    n_threads=st.integers(1, 3),
)
def test_a_sequence_has_the_same_bits(
    name, lengths, projected, cells, n_layers, n_threads
):
    """Alone and in a batch, from any state, on any number of threads."""
    lengths = sorted(lengths, reverse=True)
    bilm, _ = models(1, projected, hidden_dim=cells, n_layers=n_layers)
    x_VH, *rows, sizes, state = inputs_of(bilm.config, lengths, torch.float32)
    with torch.no_grad(), force(lstm=name):
        if not LSTM_KERNELS[name].can_run(bilm.fast.dispatch_key(), bilm.config):
            pytest.skip(f"{name} can't run here")
        with on_threads(n_threads):
            together = bilm.fast.read(x_VH, *rows, sizes, state)
        starts = [sum(sizes[:t]) for t in range(len(sizes))]
        for b, length in enumerate(lengths):
            at_T = torch.tensor(starts[:length]) + b
            own = BiLMState(*(LstmState(*(p[:, [b]] for p in s)) for s in state))
            alone = bilm.fast.read(x_VH, *(r[at_T] for r in rows), [1] * length, own)
            for whole, part in zip(together[:2], alone[:2]):
                for a, c in zip(whole, part, strict=True):
                    assert torch.equal(a[at_T], c)
            for whole, part in zip(together[2], alone[2]):
                for a, c in zip(whole, part, strict=True):
                    assert torch.equal(a[:, [b]], c)


def gradients(read, module, inputs):
    """Return outputs, and gradients by inputs and weights."""
    x_VH, *rest, state = inputs
    leaves = [x_VH, *state.forward, *state.backward]
    leaves = [leaf.clone().requires_grad_() for leaf in leaves]
    state = BiLMState(LstmState(*leaves[1:3]), LstmState(*leaves[3:]))
    outputs = flat(read(leaves[0], *rest, state))
    generator = torch.Generator().manual_seed(1)
    loss = sum(
        (o * torch.randn(o.shape, generator=generator).to(o.dtype)).sum()
        for o in outputs
    )
    stacks = module.forward_lstm, module.backward_lstm
    weights = [p for stack in stacks for p in stack.parameters()]
    return outputs, torch.autograd.grad(loss, [*leaves, *weights])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("clips", CLIPS)
@pytest.mark.parametrize("name", LEARNING)
def test_lstm_with_gradients(name, clips, projected, dtype):
    """cuDNN's form is torch's own on a CPU."""
    bilm, definition = models(0, projected, clips)
    bilm.to(getattr(torch, dtype))
    inputs = inputs_of(bilm.config, [5, 3, 3, 1], getattr(torch, dtype))
    case = dispatch_key_of(bilm.forward_lstm.layers[0].weight_x, "float32")
    if not LSTM_KERNELS[name].can_run(case, bilm.config):
        with pytest.raises(ValueError, match="EL150"), force(lstm=name):
            gradients(bilm.fast.read, bilm, inputs)
        return
    with force(lstm=name):
        found = gradients(bilm.fast.read, bilm, inputs)
    of_definition = inputs_of(bilm.config, [5, 3, 3, 1])
    expected = gradients(definition.read, definition, of_definition)
    for a, b in zip(found[0], expected[0], strict=True):
        assert error(a, b) < TOLERANCE[dtype]
    for a, b in zip(found[1], expected[1], strict=True):
        assert error(a, b) < GRADIENT_TOLERANCE[dtype]
    if clips[0]:  # the clip was at work, and the gradient respects it
        assert (expected[0][-1].abs() == clips[0]).any()


def test_gradients_equal_finite_differences():
    bilm, _ = models()
    bilm.double()
    x_VH, *rest, state = inputs_of(bilm.config, [3, 2], n_words=3)
    with force(lstm="autograd_lstm"):
        assert torch.autograd.gradcheck(
            lambda x: torch.cat(bilm.fast.read(x, *rest, state)[0]),
            [x_VH.requires_grad_()],
        )


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("clips", [(0.9, 0.8), (None, None)])
def test_lstm_under_autocast(clips, projected):
    """Matrix multiplications are rounded, the cells that are carried are not. With
    clips, which some values are rounded across, only outputs are compared: gradients
    jump there."""
    sizes = {"hidden_dim": 64, "projection_dim": 32}
    bilm, definition = models(0, projected, clips, **sizes)
    inputs = inputs_of(bilm.config, [5, 3, 3, 1], torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = gradients(bilm.fast.read, bilm, inputs)
    of_definition = inputs_of(bilm.config, [5, 3, 3, 1])
    expected = gradients(definition.read, definition, of_definition)
    assert all(a.dtype == torch.float32 for a in [*found[0], *found[1]])
    for a, b in zip(found[0], expected[0]):
        assert 1e-6 < error(a, b) < 0.03
    if clips == (None, None):
        for a, b in zip(found[1], expected[1]):
            assert 1e-6 < error(a, b) < 0.03
    cells = found[0][-1]
    assert (cells != cells.bfloat16().float()).any()


@pytest.mark.parametrize("name", TOKEN_KERNELS)
@settings(max_examples=50, deadline=None)
@given(
    words=st.lists(any_token, min_size=1, max_size=120),
    trimmed=st.booleans(),
    dtype=st.sampled_from(["float32", "float64"]),
    activation=st.sampled_from(["relu", "tanh"]),
    char_dim=st.sampled_from([3, 4]),
)
def test_token_encoder(name, words, trimmed, dtype, activation, char_dim):
    """Long words too, that leave no room for padding."""
    sizes = {"activation": activation, "char_dim": char_dim}
    bilm, definition = models(**sizes)
    ids = bilm.character_ids([*words, "x" * 47, "가" * 20])
    ids = torch.from_numpy(bilm.trim(ids) if trimmed else ids)
    encoder = bilm.to(getattr(torch, dtype)).token_encoder
    with torch.no_grad():
        case = dispatch_key_of(encoder.char_embedding, "float32")
        if not TOKEN_KERNELS[name].can_run(case, bilm.config):
            return
        found = run(name, TOKEN_KERNELS, "encode", encoder, case, [ids])
        assert error(found, definition.token_encoder(ids)) < TOLERANCE[dtype]


@settings(max_examples=40, deadline=None)
@given(words=st.lists(any_token, min_size=1, max_size=60))
def test_token_encoder_as_on_a_gpu(words):
    """Where lengths are not looked at."""
    bilm, definition = models()
    ids = torch.from_numpy(bilm.character_ids([*words, "x" * 47]))
    case = DispatchKey("cuda")
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(char_cnn, "OUTPUTS_ON_GPU", 20_000)
        found = run(
            "char_cnn", TOKEN_KERNELS, "encode", bilm.token_encoder, case, [ids]
        )
        assert error(found, definition.token_encoder(ids)) < TOLERANCE["float32"]


@pytest.mark.parametrize("name", TOKEN_KERNELS)
@settings(max_examples=40, deadline=None)
@given(
    ids=st.lists(
        st.lists(st.integers(0, 3), min_size=9, max_size=9), min_size=1, max_size=9
    )
)
def test_token_encoder_of_any_ids(name, ids):
    """Also such as no word has: runs of equal ids, at the end or not."""
    bilm, definition = models()
    ids = torch.tensor(ids)
    with torch.no_grad():
        case = dispatch_key_of(bilm.token_encoder.char_embedding, "float32")
        if not TOKEN_KERNELS[name].can_run(case, bilm.config):
            return
        found = run(name, TOKEN_KERNELS, "encode", bilm.token_encoder, case, [ids])
        assert error(found, definition.token_encoder(ids)) < TOLERANCE["float32"]


@pytest.mark.parametrize("name", ["char_cnn", "definition"])
def test_token_encoder_with_gradients(name):
    bilm, definition = models()
    words = ["a", "cat", "고양이", "x" * 48, ""] * 3
    ids = torch.from_numpy(bilm.character_ids(words))
    weights = torch.randn(len(words), bilm.config.projection_dim, dtype=torch.float64)
    with force(token_encoder=name):
        loss = (bilm.fast.token_vectors([ids]) * weights.float()).sum()
    found = torch.autograd.grad(loss, list(bilm.token_encoder.parameters()))
    loss = (definition.token_encoder(ids) * weights).sum()
    expected = torch.autograd.grad(loss, list(definition.token_encoder.parameters()))
    for a, b in zip(found, expected, strict=True):
        assert error(a, b) < GRADIENT_TOLERANCE["float32"]


@pytest.mark.parametrize("word_dim", [0, 5])
@pytest.mark.parametrize("name", TOKEN_KERNELS)
def test_words_in_parts_and_beside_a_table(name, word_dim):
    """Parts of a batch, each as wide as its longest word, and word ids beside them."""
    sizes = {"n_words": 9, "word_dim": word_dim} if word_dim else {}
    bilm, definition = models(**sizes)
    ids = torch.from_numpy(bilm.character_ids(["a", "cat", "고양이", "x" * 48]))
    parts = [ids[:2, :12], ids[2:]]
    more = [torch.tensor([3, 0, 8, 8])] if word_dim else []
    with torch.no_grad(), force(token_encoder=name):
        case = bilm.fast.dispatch_key()
        if not TOKEN_KERNELS[name].can_run(case, bilm.config):
            pytest.skip("there is no library")
        found = bilm.fast.token_vectors(parts, *more)
        assert error(found, definition.token_encoder(ids, *more)) < 2e-6


@pytest.mark.parametrize("precision", ["float32", "half"])
def test_whole_model(precision):
    """Alone and in a batch; float32 comes back bit for bit."""
    needs(precision)
    sizes = {"hidden_dim": 64, "projection_dim": 32, "filters": ((1, 16), (3, 48))}
    bilm, definition = models(1, True, (3.0, 3.0), **sizes)
    sentences = [[f"w{i * j}" for i in range(j)] for j in (3, 9, 5, 17, 1)]
    batch = pack(sentences)
    with torch.no_grad():
        ids = torch.from_numpy(bilm.character_ids(batch.words))
        numbers = map(torch.from_numpy, (batch.word_N, batch.reversed_N))
        state = BiLMState.zeros(bilm.config, len(sentences), torch.zeros(1).double())
        layers, _ = definition([ids], *numbers, batch.batch_sizes, state)
    before = bilm.encode(sentences)
    bilm.set_precision(precision)
    for s, found in enumerate(bilm.encode(sentences)):
        wanted = layers[:, batch.positions[s]]
        least = 0 if precision == "float32" else 1e-5  # or nothing was rounded
        assert least < error(torch.from_numpy(found), wanted) < TOLERANCE[precision]
        (alone,) = bilm.encode(sentences[s : s + 1])
        assert (alone == found).all()
    bilm.set_precision("float32")
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
    bilm, definition = models(0, projected)
    n_layers = 2 * bilm.config.n_layers
    inputs = inputs_of(bilm.config, [5, 3, 3, 1], torch.float32)
    with torch.no_grad(), force(lstm="cudnn_lstm"):
        for times in (1, 2):
            for _ in range(3):
                found = bilm.fast.read(*inputs)
            assert len(calls) == times * n_layers
            of_definition = inputs_of(bilm.config, [5, 3, 3, 1])
            for a, b in zip(flat(found), flat(definition.read(*of_definition))):
                assert error(a, b) < TOLERANCE["float32"]
            for model in (bilm, definition):
                model.forward_lstm.layers[0].bias.add_(0.5)


def test_copies_compute_with_their_own_weights():
    bilm, _ = models()
    bilm.encode([["a"]])
    other = copy.deepcopy(bilm)
    with torch.no_grad():
        other.forward_lstm.layers[0].bias.add_(1)
    assert (other.encode([["a"]])[0] != bilm.encode([["a"]])[0]).any()
