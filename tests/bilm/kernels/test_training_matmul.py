"""How matrices are multiplied while training, against NumPy."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.bilm.kernels.matmul import multiply_by
from spacy_elmo.bilm.kernels.plan import choose_training_matmul

FORM = choose_training_matmul("cpu")


@given(st.integers(1, 90), st.integers(1, 300), st.integers(1, 90))
@settings(deadline=None, max_examples=40)
def test_matmul_of_training_is_rounded_as_float32(m, k, n):
    rng = np.random.default_rng(m + k + n)
    x, weight = rng.normal(size=(m, k)), rng.normal(size=(k, n))
    a, b = (torch.tensor(array, dtype=torch.float32) for array in (x, weight))
    with multiply_by(FORM):
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
        with multiply_by("onednn"):
            assert torch.get_float32_matmul_precision() == "medium"
        assert torch.get_float32_matmul_precision() == before
        assert precisions() == each
        with multiply_by("torch"):
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
        with multiply_by("onednn"):
            assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"
            torch.randn(9, 9) @ torch.randn(9, 9)
        assert precisions() == each
    finally:
        matmul.fp32_precision = before
