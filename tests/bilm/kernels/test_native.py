"""The C library: the same bits alone and in any batch, on any number of threads and
with any instructions; what it is given is checked first."""

import copy
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.speed import on_threads
from spacy_elmo import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.encode import pack
from spacy_elmo.bilm.kernels import find_library
from spacy_elmo.bilm.kernels.kernel import KERNELS, dispatch_key_of, force
from spacy_elmo.bilm.kernels.native import (
    INSTRUCTIONS,
    _load,
    checked_rows,
)
from spacy_elmo.models import find

from ...models import SENTENCES, any_token, tiny_config

HERE = [name for name in INSTRUCTIONS if _load(name)]
# Sizes that fill no vector, and sizes that fill several groups.
ODD = tiny_config(
    hidden_dim=37, projection_dim=19, char_dim=3, filters=((1, 5), (4, 71))
)
LARGE = BiLMConfig(hidden_dim=96, projection_dim=80, filters=((1, 48), (3, 100)))
TEXT = [[f"w{i * j % 7}" for i in range(j)] for j in (3, 9, 5, 17, 1, 12, 30, 2, 2, 8)]

pytestmark = pytest.mark.skipif(
    find_library() is None, reason="the library is not built, or not wanted"
)


@pytest.fixture(params=[ODD, LARGE], ids=["odd", "large"])
def bilm(request):
    return BiLM.random(request.param, seed=1)


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("precision", ["float32", "half"])
@settings(max_examples=25, deadline=None)
@given(
    texts=st.lists(st.lists(any_token, max_size=20), min_size=1, max_size=12),
    n_threads=st.integers(1, 5),
    batch_tokens=st.integers(1, 200),
    data=st.data(),
)
def test_a_sentence_has_the_same_bits(precision, texts, n_threads, batch_tokens, data):
    """Alone, in any batch and order, on any number of threads, with a warm cache."""
    config = data.draw(st.sampled_from([ODD, LARGE]))
    bilm = BiLM.random(config, seed=1).set_precision(precision)
    alone = [bilm.encode([text])[0] for text in texts]
    bilm.token_cache.clear()
    order = data.draw(st.permutations(range(len(texts))))
    with on_threads(n_threads):
        found = bilm.encode([texts[i] for i in order], batch_tokens=batch_tokens)
    assert same(found, [alone[i] for i in order])


@pytest.mark.parametrize("name", [n for n in HERE if n != "avx512_bf16"])
def test_all_instructions_give_the_same_float32(name, bilm):
    """Which are sums in one order, rounded once a product."""
    expected = bilm.encode(TEXT)
    bilm.token_cache.clear()
    with force(instructions=name):
        assert same(bilm.encode(TEXT), expected)


@pytest.mark.parametrize("name", HERE)
def test_half_precision_of_all_instructions(name, bilm):
    expected = bilm.encode(TEXT)
    with force(instructions=name):
        bilm.set_precision("half")
        for a, b in zip(bilm.encode(TEXT), expected):
            assert 1e-5 < abs(a - b).max() / abs(b).max() < 0.03


def test_the_first_state_is_carried(bilm):
    """In two parts, of which the second goes on from the state of the first."""
    words = [[f"w{i}" for i in range(9)], ["a", "b", "c"]]
    whole, _ = bilm.encode_stateful(words)
    state = None
    with force(lstm="definition"):
        for _ in range(2):
            expected, state = bilm.encode_stateful(words, state)
    found = None
    for _ in range(2):
        again, found = bilm.encode_stateful(words, found)
    for a, b in zip(again, expected):
        assert a == pytest.approx(b, abs=1e-5)
    found, state = ([*both.forward, *both.backward] for both in (found, state))
    for a, b in zip(found, state, strict=True):
        assert a.numpy() == pytest.approx(b.numpy(), abs=1e-5)
    assert not same(whole, again)


def test_numbers_that_are_not_finite_stay_so(bilm):
    """And are reported, not turned into others."""
    for name in ("forward_lstm.layers.0.weight_h", "token_encoder.char_embedding"):
        spoiled = copy.deepcopy(bilm)
        with torch.no_grad():
            dict(spoiled.named_parameters())[name][-1] = math.nan
        with pytest.raises(ValueError, match="EL078"):
            spoiled.encode([["w1", "w2", "x" * 60]] if "char" in name else TEXT)


def test_large_numbers_stay_as_the_definition_has_them():
    """Gates far from zero, and cells without clips."""
    bilm = BiLM.random(tiny_config(cell_clip=None, proj_clip=None), seed=1)
    with torch.no_grad():
        for layer in [*bilm.forward_lstm.layers, *bilm.backward_lstm.layers]:
            layer.weight_x.mul_(300)
            layer.bias.fill_(50)
    found = bilm.encode(TEXT)
    with force(lstm="definition"):
        expected = bilm.encode(TEXT)
    for a, b in zip(found, expected):
        assert a == pytest.approx(b, rel=1e-5, abs=1e-5)


def test_small_numbers_keep_their_relative_accuracy():
    """tanh(x) of small x is no difference of numbers near 1."""
    bilm = BiLM.random(tiny_config(), seed=1)
    with torch.no_grad():
        for parameter in bilm.parameters():
            parameter.mul_(0.02)
    definition = copy.deepcopy(bilm).double()
    with force(token_encoder="definition", lstm="definition"):
        expected = definition.encode(TEXT)
    for a, b in zip(bilm.encode(TEXT), expected):
        for layer, wanted in zip(a, b):
            assert abs(layer - wanted).max() < 1e-5 * abs(wanted).max()


def test_threads_share_a_model(bilm):
    expected = [bilm.encode([text])[0] for text in TEXT]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            found = list(pool.map(lambda text: bilm.encode([text])[0], TEXT))
            assert same(found, expected)


def test_other_weights_are_computed_by_torch(bilm):
    """Those of float64, and where a gradient is asked for."""
    case = bilm.fast.dispatch_key()
    assert not case.is_native and case._replace(gradient=False).is_native
    weight = torch.empty(0, dtype=torch.float64)
    assert not dispatch_key_of(weight, "float32")._replace(gradient=False).is_native


def test_what_is_read_is_checked_before(bilm):
    batch = pack(SENTENCES)
    x_VH = torch.zeros(len(batch.words), bilm.config.projection_dim)
    rows, sizes = torch.from_numpy(batch.word_N), batch.batch_sizes
    state = bilm.zero_state(2)
    with torch.no_grad(), force(lstm="native_lstm"):
        bilm.fast.read(x_VH, rows, rows, sizes, state)
        for wrong, error in (
            ((x_VH[:, 1:], rows, rows, sizes, state), TypeError),
            ((x_VH.double(), rows, rows, sizes, state), TypeError),
            ((x_VH[:2], rows, rows, sizes, state), IndexError),
            ((x_VH, rows - 1, rows, sizes, state), IndexError),
            ((x_VH, rows, rows[1:], sizes, state), TypeError),
            ((x_VH, rows, rows, sizes[1:], state), ValueError),
            ((x_VH, rows, rows, sizes, bilm.zero_state(3)), TypeError),
        ):
            with pytest.raises(error):
                bilm.fast.read(*wrong)
        ids = torch.full((1, 50), bilm.config.n_characters)
        with pytest.raises(IndexError):
            bilm.fast.token_vectors([ids])
    assert len(checked_rows(rows[:0], 0, 0)) == 0


def test_without_the_library_torch_computes(bilm):
    """With the same vectors up to rounding, exact in any batch too; half precision is
    refused."""
    expected = bilm.encode(TEXT)
    bilm.token_cache.clear()
    with force(instructions="none"):
        found = bilm.encode(TEXT)
        assert same([bilm.encode([text])[0] for text in TEXT], found)
        for a, b in zip(found, expected):
            assert a == pytest.approx(b, abs=1e-5)
        with pytest.raises(ValueError, match="EL077"):
            bilm.set_precision("half")
    with pytest.raises(ValueError, match="EL097"):
        bilm.set_precision("int8")


def test_instructions_that_are_not_there_are_refused():
    missing = [n for n in KERNELS["instructions"] if n not in (*HERE, "none")]
    for name in missing:
        refused = pytest.raises(ValueError, match=f"EL150.*{name}")
        with refused, force(instructions=name):
            BiLM.random(tiny_config()).encode(SENTENCES)


def test_a_variable_forces_instructions():
    code = (
        "from spacy_elmo.bilm.kernels import find_library as f;"
        "print(getattr(f(), 'instructions', None))"
    )
    for name in (HERE[0], "none"):
        environment = {**os.environ, "SPACY_ELMO_KERNELS": f"instructions={name}"}
        command = [sys.executable, "-c", code]
        found = subprocess.check_output(command, env=environment, text=True)
        assert found.strip() == ("None" if name == "none" else name)


def test_the_english_model_in_float64():
    """Every layer within 1e-6 of its largest value."""
    bilm = BiLM.load(find("en_elmo_sm"))
    text = "She opened an account at the bank , then sat on the bank of the river ."
    sentences = [text.split(), ["Bank"], ["They", "sat"] * 10]
    found = bilm.encode(sentences)
    with force(token_encoder="definition", lstm="definition"):
        bilm.double().token_cache.clear()
        batch = pack(sentences)
        with torch.no_grad():
            layers, _ = bilm(batch)
    for s, layers_LTD in enumerate(found):
        expected = layers[:, batch.positions[s]].numpy()
        for a, b in zip(layers_LTD, expected):
            assert abs(a - b).max() < 1e-6 * abs(b).max()
