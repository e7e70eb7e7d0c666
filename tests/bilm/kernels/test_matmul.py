"""Every form of x W + b against NumPy, and weights that change."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.kernels import processor
from spacy_elmo.bilm.kernels.choose import (
    TABLE,
    check_precision,
    choose_matmul,
    choose_training_matmul,
)
from spacy_elmo.bilm.kernels.matmul import FORMS, Weight
from spacy_elmo.bilm.kernels.memo import Derived
from spacy_elmo.bilm.kernels.processor import (
    Case,
    Settings,
    case_of,
    instructions,
    probe,
)
from spacy_elmo.bilm.kernels.training_matmul import training_matmul

from ...models import SENTENCES, tiny_config

CPU = torch.device("cpu")
FORM = choose_training_matmul(processor.processor_of(CPU))
# Errors relative to the largest value, by what the matrices are rounded to.
TOLERANCE = {"float32": 1e-6, "half": 2e-2, "int8": 5e-2}


@pytest.fixture
def new_probe():
    """Find out anew what this processor can, before and after."""
    probe.cache_clear()
    yield
    probe.cache_clear()


def rules_of(precision, weight, exact=False):
    """Return the forms that are chosen for a precision."""
    try:
        check_precision(precision, CPU)
    except ValueError:
        pytest.skip(f"no {precision} on this processor")
    with torch.no_grad():
        return choose_matmul(case_of(Settings(precision, exact), weight))


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("is_copy", [False, True])
@settings(max_examples=25, deadline=None)
@given(
    M=st.integers(1, 300),
    K=st.integers(1, 70),
    N=st.integers(1, 90),
    biased=st.booleans(),
    exact=st.booleans(),
)
def test_equals_numpy(precision, is_copy, M, K, N, biased, exact):
    rng = np.random.default_rng(M + K + N)
    x, weight = rng.normal(size=(M, K)), rng.normal(size=(K, N))
    bias, z = rng.normal(size=N), rng.normal(size=(M, N))
    tensors = [torch.from_numpy(a.astype("float32")) for a in (x, weight, bias, z)]
    expected = x @ weight
    rules = rules_of(precision, tensors[1], exact)
    with torch.no_grad():
        prepared = Weight(tensors[1].clone, rules=rules, is_copy=is_copy)
        found = prepared.at(M).linear(tensors[0], tensors[2] if biased else None)
        prepared.at(M).add_to(tensors[3], tensors[0])
    limit = TOLERANCE[precision] * max(1.0, np.abs(expected).max()) * 4
    assert np.abs(found.numpy() - expected - (bias if biased else 0)).max() < limit
    assert np.abs(tensors[3].numpy() - expected - z).max() < limit


@pytest.mark.parametrize("rows", [1, 3, 4, 100, 200])
def test_large_weights(rows):
    """Of which other copies are kept than of small ones."""
    x, weight = torch.randn(rows, 1100), torch.randn(1100, 1000)
    expected = x.numpy().astype("float64") @ weight.numpy()
    with torch.no_grad():
        for is_copy in (False, True):
            rules = rules_of("float32", weight)
            prepared = Weight(weight.clone, rules=rules, is_copy=is_copy)
            z = torch.zeros(rows, 1000)
            prepared.at(rows).add_to(z, x)
            assert abs(prepared.at(rows).linear(x).numpy() - expected).max() < 1e-3
            assert abs(z.numpy() - expected).max() < 1e-3


def test_a_part_of_many_rows_is_the_same():
    x, weight = torch.randn(256, 64), torch.randn(64, 48)
    prepared = Weight(weight.detach, rules=rules_of("float32", weight))
    whole = prepared.at(len(x)).linear(x)
    for part in (prepared.at(len(x)).linear(x[:9]), prepared.at(9).linear(x[:9])):
        assert torch.allclose(part, whole[:9], atol=1e-5)


@pytest.mark.skipif(
    not any(rule.form == "mkl" for rule in TABLE[instructions()].get("float32", ())),
    reason="only what multiplies by MKL asks this of it",
)
@pytest.mark.parametrize(
    ("K", "N"), [(128, 4096), (1024, 128), (256, 2048), (512, 256), (70, 33)]
)
def test_mkl_sums_up_in_one_order(K, N):
    """However many rows there are, one alone too."""
    x, weight, z = torch.randn(700, K), torch.randn(K, N), torch.randn(700, N)
    prepared = FORMS["mkl"](weight)
    whole, added = prepared.linear(x, z[0]), z.clone()
    prepared.add_to(added, x)
    for first, rows in [(0, 1), (3, 1), (0, 2), (5, 3), (9, 8), (1, 64), (100, 333)]:
        part = slice(first, first + rows)
        assert torch.equal(prepared.linear(x[part], z[0]), whole[part])
        some = z[part].clone()
        prepared.add_to(some, x[part])
        assert torch.equal(some, added[part])


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("change", ["in place", "another", "data"])
def test_a_changed_weight_is_noticed(precision, change):
    weight = torch.nn.Parameter(torch.randn(32, 24))
    x = torch.randn(9, 32)
    rules = rules_of(precision, weight)
    prepared = Derived(lambda w, rules: Weight(w.detach, rules=rules))
    with torch.no_grad():
        before = prepared(weight, rules=rules).at(9).linear(x)
        if change == "in place":
            weight.add_(1)
        elif change == "another":
            weight = torch.nn.Parameter(weight + 1)
        else:
            weight.data = weight.data + 1
        after = prepared(weight, rules=rules).at(9).linear(x)
        assert after - before == pytest.approx(
            x.sum(dim=1, keepdim=True).expand(-1, 24).numpy(), abs=0.3
        )


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))]
)
def test_copies_prepare_weights_of_their_own(copied):
    bilm = BiLM.random(tiny_config(), seed=1)
    before = bilm.encode(SENTENCES)
    other = copied(bilm)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.5)
    for a, b, c in zip(before, bilm.encode(SENTENCES), other.encode(SENTENCES)):
        assert (a == b).all() and abs(a - c).max() > 1e-3


def test_without_onednn_torch_multiplies(monkeypatch):
    bilm = BiLM.random(tiny_config())
    before = bilm.encode(SENTENCES)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    for a, b in zip(before, bilm.encode(SENTENCES)):
        assert a == pytest.approx(b, abs=1e-6)
    with pytest.raises(ValueError, match="EL077"):
        bilm.set_precision("int8")


@pytest.mark.parametrize(
    ("precision", "instructions"), [("half", "unknown"), ("int8", "avx512")]
)
def test_a_precision_that_the_processor_has_not_is_refused(
    precision, instructions, monkeypatch, new_probe
):
    monkeypatch.setattr(processor, "instructions", lambda: instructions)
    bilm = BiLM.random(tiny_config())
    with pytest.raises(ValueError, match=r"EL077.*float32"):
        bilm.set_precision(precision)
    with pytest.raises(ValueError, match=r"EL073.*float32, tf32, half, int8"):
        bilm.set_precision("quarter")


def test_with_a_gradient_torch_multiplies():
    case = case_of(Settings(), torch.nn.Parameter(torch.randn(3, 3)))
    assert case.gradient and not Case(case.processor).gradient


@given(st.integers(1, 90), st.integers(1, 300), st.integers(1, 90))
@settings(deadline=None, max_examples=40)
def test_matmul_of_training_is_rounded_as_float32(m, k, n):
    rng = np.random.default_rng(m + k + n)
    x, weight = rng.normal(size=(m, k)), rng.normal(size=(k, n))
    a, b = (torch.tensor(array, dtype=torch.float32) for array in (x, weight))
    with training_matmul(FORM):
        found = (a @ b).numpy()
    expected = a.double().numpy() @ b.double().numpy()
    largest = np.abs(a.double().numpy()) @ np.abs(b.double().numpy())
    assert np.all(np.abs(found - expected) <= 1e-6 * largest)


def precisions():
    backends = torch.backends.mkldnn.matmul, torch.backends.cuda.matmul
    return [backend.fp32_precision for backend in backends]


@pytest.mark.parametrize("before", ["highest", "high", "medium"])
def test_matmul_of_training_leaves_settings_that_torch_can_read(before):
    """Loggers and torch.compile ask for the precision while a model is trained."""
    own = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(before)
    try:
        each = precisions()
        with training_matmul("onednn"):
            assert torch.get_float32_matmul_precision() == "medium"
        assert torch.get_float32_matmul_precision() == before
        assert precisions() == each
        with training_matmul("torch"):
            assert precisions() == each
    finally:
        torch.set_float32_matmul_precision(own)


def test_matmul_of_training_after_precisions_of_single_backends():
    """Which torch can't sum up: they come back as they were."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    try:
        each = precisions()
        with training_matmul("onednn"):
            assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"
            torch.randn(9, 9) @ torch.randn(9, 9)
        assert precisions() == each
    finally:
        matmul.fp32_precision = before
