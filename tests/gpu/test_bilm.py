"""On a GPU: the vectors of the CPU, by every kernel and in every precision."""

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import PUBLISHED
from spacy_elmo.bilm.kernels import DispatchKey, cudnn_lstm, force
from spacy_elmo.models import find

from ..bilm.kernels.test_gpu_lstm import (
    SIZES,
    assert_close,
    compute,
    defined,
    leaves_of,
    make_inputs,
    make_layers,
)
from ..models import tiny_config
from . import DEVICE, memory_for, needs_gpu

pytestmark = needs_gpu

SENTENCES = [
    ["A", "cat", "sat"],
    ["고양이", "가"],
    [],
    [f"w{i}" * 9 for i in range(40)],
]
UNCLIPPED = {"cell_clip": None, "proj_clip": None}
MODELS = {
    "tiny": lambda: BiLM.random(tiny_config(), seed=1),
    "tiny, no clips": lambda: BiLM.random(tiny_config(**UNCLIPPED), seed=1),
    "en_elmo_sm": lambda: BiLM.load(find("en_elmo_sm")),
    **{name: lambda c=config: BiLM.random(c) for name, config in PUBLISHED.items()},
}
KERNELS = {
    "chosen": {},
    "definition": {"lstm": "definition", "token_encoder": "definition"},
    "both directions at once": {"lstm": "gpu_lstm"},
    "cuDNN": {"lstm": "cudnn_lstm"},
    "one direction after the other": {"lstm": "torch_lstm"},
}
# Of the largest value. TF32 keeps 11 bits of what is multiplied, as float16 does.
TOLERANCES = {"float32": 1e-5, "tf32": 1e-2, "half": 2e-2}


def error(found, expected):
    """The largest difference, in parts of the largest value."""
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == np.float32
    pairs = [(a, b) for a, b in zip(found, expected) if b.size]
    largest = max(abs(b).max() for _, b in pairs)
    return max(abs(a - b).max() for a, b in pairs) / largest


@pytest.mark.parametrize("name", MODELS)
def test_vectors_are_those_of_the_cpu(name):
    bilm = MODELS[name]()
    expected = bilm.encode(SENTENCES)
    bilm.to(DEVICE)
    for label, kernels in KERNELS.items():
        if label == "cuDNN" and not cudnn_lstm.can_run(
            DispatchKey("cuda"), bilm.config
        ):
            continue
        with force(**kernels):
            found = error(bilm.encode(SENTENCES), expected)
        assert found <= TOLERANCES["float32"], (label, found)


@pytest.mark.parametrize("kernels", ["chosen", "both directions at once"])
@pytest.mark.parametrize("precision", ["tf32", "half"])
def test_lower_precisions(precision, kernels):
    bilm = BiLM.load(find("en_elmo_sm"))
    expected = bilm.encode(SENTENCES)
    bilm.to(DEVICE).set_precision(precision)
    with force(**KERNELS[kernels]):
        found = error(bilm.encode(SENTENCES), expected)
    assert 1e-6 < found <= TOLERANCES[precision]


@pytest.mark.parametrize("kernels", ["chosen", "both directions at once"])
def test_a_sentence_alone_and_in_a_batch(kernels):
    bilm = BiLM.load(find("en_elmo_sm")).to(DEVICE)
    with force(**KERNELS[kernels]):
        batch = bilm.encode(SENTENCES)
        alone = [bilm.encode([sentence])[0] for sentence in SENTENCES]
    assert error(alone, batch) <= TOLERANCES["float32"]


@pytest.mark.parametrize("word_dim", [0, 3], ids=["words", "words and characters"])
def test_models_that_read_words(word_dim):
    config = tiny_config(n_words=4, word_dim=word_dim)
    bilm = BiLM(config, vocab=["<UNK>", "A", "cat", "가"])
    torch.manual_seed(0)
    for parameter in bilm.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    expected = bilm.eval().encode(SENTENCES)
    assert error(bilm.to(DEVICE).encode(SENTENCES), expected) <= TOLERANCES["float32"]


def test_weights_that_change_are_used():
    bilm = BiLM.random(tiny_config(), seed=1).to(DEVICE)
    bilm.encode(SENTENCES)
    other = BiLM.random(tiny_config(), seed=2)
    bilm.load_state_dict(other.state_dict())
    found = error(bilm.encode(SENTENCES), other.encode(SENTENCES))
    assert found <= TOLERANCES["float32"]


def test_state_is_carried():
    bilm = BiLM.random(tiny_config(), seed=1)
    first, second = [["A", "cat"]] * 2, [["sat"], ["가", "A"]]
    _, state = bilm.encode_stateful(first)
    expected, _ = bilm.encode_stateful(second, state)
    bilm.to(DEVICE)
    _, state = bilm.encode_stateful(first)
    found, _ = bilm.encode_stateful(second, state)
    assert error(found, expected) <= TOLERANCES["float32"]


@pytest.mark.parametrize(
    ("dtype", "clip"),
    [
        (torch.float32, None),
        (torch.float32, 0.4),
        (torch.float16, None),
        (torch.float16, 0.4),
        # With clips its rounding decides whether a gradient passes.
        (torch.bfloat16, None),
    ],
    ids=str,
)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_layer_and_its_gradients(sizes, clip, dtype):
    from spacy_elmo.bilm.kernels import triton_steps

    torch.manual_seed(0)
    layers, inputs = make_layers(clip, *sizes[1:]), make_inputs(*sizes)
    gradients = [torch.randn_like(tensor) for tensor in inputs]
    wanted = defined(layers, sizes[0], inputs, gradients)
    leaves = leaves_of(layers, inputs, DEVICE)
    found = compute(triton_steps, layers, sizes[0], leaves, dtype)
    of_leaves = torch.autograd.grad(
        found, leaves, [g.float().to(DEVICE) for g in gradients]
    )
    tolerance = {torch.float32: 3e-6, torch.float16: 6e-3, torch.bfloat16: 5e-2}[dtype]
    for ours, theirs in zip((found, of_leaves), wanted):
        assert_close([tensor.cpu() for tensor in ours], theirs, tolerance)


def test_sentences_that_do_not_fit_at_once():
    bilm = BiLM.random(PUBLISHED["small"]).to(DEVICE)
    sentences = [[f"w{i}", *"abcdefgh"] for i in range(600)]
    expected = bilm.encode(sentences)

    def encode():
        bilm.token_cache.clear()
        return bilm.encode(sentences, batch_tokens=1 << 20)

    with memory_for(0.6, encode), pytest.warns(UserWarning, match="ELW06"):
        found = encode()
    assert error(found, expected) <= TOLERANCES["float32"]
