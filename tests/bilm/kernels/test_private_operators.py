"""A torch without one of its private operators, or without oneDNN, costs speed alone.

`pytest tests/bilm --hide mkldnn._linear_pointwise` runs other tests without one.
"""

import pytest
import torch

from spacy_elmo.bilm.kernels.choose import check_precision
from spacy_elmo.bilm.kernels.forced import force
from spacy_elmo.bilm.kernels.matmul import works
from spacy_elmo.bilm.kernels.processor import probe

from ...conftest import PRIVATE, hide
from ...models import SENTENCES

# Errors, by what the matrices are rounded to.
TOLERANCE = {"float32": 1e-6, "half": 2e-2, "int8": 5e-2}


@pytest.fixture(params=[*PRIVATE, "all", "oneDNN"])
def without(request, monkeypatch):
    if request.param == "oneDNN":
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    for name in PRIVATE:
        if request.param in (name, "all"):
            hide(name, monkeypatch)
    yield request.param
    for function in (works, probe):
        function.cache_clear()


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("exact", [False, True])
def test_vectors_are_the_same(without, precision, exact, tiny):
    with force(lstm="definition", token_encoder="definition"):
        expected = tiny.encode(SENTENCES)
    try:
        check_precision(precision, torch.device("cpu"))
    except ValueError:
        if precision != "float32":
            return
        raise
    tiny.set_precision(precision).set_exact(exact)
    together = tiny.encode(SENTENCES * 20)[: len(SENTENCES)]
    alone = [tiny.encode([sentence])[0] for sentence in SENTENCES]
    for a, b in zip([*together, *alone], expected * 2):
        assert abs(a - b).max() <= TOLERANCE[precision] * max(1, abs(b).max())
