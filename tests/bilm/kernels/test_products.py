"""Products in every precision, against NumPy."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.kernels.products import (
    PRECISIONS,
    Product,
    check_precision,
    onednn_matmul,
)

from ...models import EVEN_SIZES, SENTENCES, tiny_config

CPU = torch.device("cpu")
# Of the largest value of a product of normal variables, by the rounding of its factors.
TOLERANCE = {"float32": 1e-6, "half": 2e-2, "int8": 5e-2}


def available(precision):
    try:
        check_precision(precision, CPU)
    except ValueError:
        return False
    return True


def needs(precision):
    if not available(precision):
        pytest.skip(f"no {precision} on this processor")


def product_of(precision, weight, prepare=None):
    product = Product(prepare)
    product.precision = precision
    return product, product.factor(weight)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("prepared", [False, True])
@settings(max_examples=25, deadline=None)
@given(
    M=st.integers(1, 300),
    K=st.integers(1, 70),
    N=st.integers(1, 90),
    biased=st.booleans(),
)
def test_equals_numpy(precision, prepared, M, K, N, biased):
    needs(precision)
    rng = np.random.default_rng(M + K + N)
    x, weight = rng.normal(size=(M, K)), rng.normal(size=(K, N))
    bias, z = rng.normal(size=N), rng.normal(size=(M, N))
    tensors = [torch.from_numpy(a.astype("float32")) for a in (x, weight, bias, z)]
    expected = x @ ((2 * weight) if prepared else weight)
    with torch.no_grad():
        product, factor = product_of(
            precision, tensors[1], (lambda w: 2 * w) if prepared else None
        )
        found = product(tensors[0], tensors[1], tensors[2] if biased else None)
        factor.add_to(tensors[3], tensors[0])
    limit = TOLERANCE[precision] * max(1.0, np.abs(expected).max()) * 4
    assert np.abs(found.numpy() - expected - (bias if biased else 0)).max() < limit
    assert np.abs(tensors[3].numpy() - expected - z).max() < limit


@pytest.mark.parametrize("rows", [1, 3, 4, 100, 200])
def test_large_weights(rows):
    """Of which the copies are kept in other forms than of small ones."""
    x, weight = torch.randn(rows, 1100), torch.randn(1100, 1000)
    expected = x.numpy().astype("float64") @ weight.numpy()
    with torch.no_grad():
        for prepare in (None, torch.clone):
            product, factor = product_of("float32", weight, prepare)
            z = torch.zeros(rows, 1000)
            factor.add_to(z, x)
            assert np.abs(product(x, weight).numpy() - expected).max() < 1e-3
            assert np.abs(z.numpy() - expected).max() < 1e-3
            assert product(x, weight).shape == (rows, 1000)


def test_a_part_of_many_rows_is_the_same():
    x, weight = torch.randn(300, 64), torch.randn(64, 48)
    with torch.no_grad():
        _, factor = product_of("float32", weight)
        whole, part = factor.times(x), factor.times(x[:9], of=300)
        assert factor.packed is None  # no copy for the sake of a remainder
        assert torch.allclose(part, whole[:9], atol=1e-5)
        assert torch.allclose(factor.times(x[:9]), whole[:9], atol=1e-5)
        assert factor.packed is not None


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("change", ["in place", "another", "data"])
def test_a_changed_weight_is_noticed(precision, change):
    needs(precision)
    weight = torch.nn.Parameter(torch.randn(32, 24))
    x = torch.randn(9, 32)
    product, _ = product_of(precision, weight)
    with torch.no_grad():
        before = product(x, weight)
        if change == "in place":
            weight.add_(1)
        elif change == "another":
            weight = torch.nn.Parameter(weight + 1)
        else:
            weight.data = weight.data + 1
        after = product(x, weight)
        assert after - before == pytest.approx(
            x.sum(dim=1, keepdim=True).expand(-1, 24).numpy(), abs=0.3
        )


def test_gradients_are_torchs():
    x = torch.randn(7, 5, requires_grad=True)
    weight = torch.nn.Parameter(torch.randn(5, 3))
    bias = torch.nn.Parameter(torch.randn(3))
    assert torch.equal(Product()(x, weight, bias), torch.addmm(bias, x, weight))
    assert Product()(x, weight).requires_grad


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))]
)
def test_copies_begin_without_kept_weights(copied):
    weight = torch.nn.Parameter(torch.randn(32, 24))
    product, _ = product_of("float32", weight, torch.clone)
    other = copied(product)
    assert other._made is None and other.prepare is torch.clone
    with torch.no_grad():
        x = torch.randn(8, 32)
        assert torch.equal(product(x, weight), other(x, weight))


def test_without_onednn_the_products_are_torchs(monkeypatch):
    bilm = BiLM.random(tiny_config())
    before = bilm.encode(SENTENCES)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    for a, b in zip(before, bilm.encode(SENTENCES)):
        assert a == pytest.approx(b, abs=1e-6)
    with pytest.raises(ValueError, match="EL077"):
        bilm.set_precision("half")


@pytest.mark.parametrize(
    ("precision", "missing"),
    [("half", "_is_avx512_bf16_supported"), ("int8", "_is_vnni_supported")],
)
def test_a_precision_that_the_processor_has_not_is_refused(
    precision, missing, monkeypatch
):
    monkeypatch.setattr(torch.cpu, missing, lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    bilm = BiLM.random(tiny_config())
    with pytest.raises(ValueError, match=r"EL077.*float32"):
        bilm.set_precision(precision)
    with pytest.raises(ValueError, match=r"EL073.*float32, half, int8"):
        bilm.set_precision("quarter")


@pytest.mark.parametrize("precision", ["half", "int8"])
def test_a_biLM_in_fewer_bits(precision):
    """Near to float32, back to it to the bit, and as independent of the batch."""
    needs(precision)
    bilm = BiLM.random(EVEN_SIZES, seed=1)
    sentences = [[f"w{i * j}" for i in range(j)] for j in (3, 9, 5, 17, 1)]
    exact = bilm.encode(sentences)
    bilm.set_precision(precision)
    rounded = bilm.encode(sentences)
    scale = max(abs(a).max() for a in exact)
    errors = [abs(a - b).max() / scale for a, b in zip(exact, rounded)]
    assert 0 < max(errors) < 0.1
    for sentence, together in zip(sentences, rounded):
        alone = bilm.encode([sentence])[0]
        assert alone == pytest.approx(together, abs=1e-5)
    bilm.set_precision("float32")
    for a, b in zip(exact, bilm.encode(sentences)):
        assert np.array_equal(a, b)


@given(st.integers(1, 90), st.integers(1, 300), st.integers(1, 90))
@settings(deadline=None, max_examples=40)
def test_products_of_training_are_rounded_as_float32(m, k, n):
    rng = np.random.default_rng(m + k + n)
    x, weight = rng.normal(size=(m, k)), rng.normal(size=(k, n))
    a, b = (torch.tensor(array, dtype=torch.float32) for array in (x, weight))
    before = torch.backends.mkldnn.matmul.fp32_precision
    with onednn_matmul():
        found = (a @ b).numpy()
    assert torch.backends.mkldnn.matmul.fp32_precision == before
    expected = a.double().numpy() @ b.double().numpy()
    largest = np.abs(a.double().numpy()) @ np.abs(b.double().numpy())
    assert np.all(np.abs(found - expected) <= 1e-6 * largest)
