"""A torch without one of its private operators, or without oneDNN, costs speed alone.

`pytest tests/bilm --hide mkldnn._linear_pointwise` runs other tests without one.
"""

import pytest
import torch

from spacy_elmo.bilm.kernels.choose import TABLE, check_precision
from spacy_elmo.bilm.kernels.forced import force
from spacy_elmo.bilm.kernels.matmul import works
from spacy_elmo.bilm.kernels.processor import probe, processor_of

from ...conftest import PRIVATE, hide
from ...models import SENTENCES

# Errors, by what the matrices are rounded to.
TOLERANCE = {"float32": 1e-6, "half": 2e-2, "int8": 5e-2}
CPU = torch.device("cpu")
# What forms of fewer bits need, each.
NEEDED = {
    "onednn_bfloat16": {"oneDNN", *PRIVATE[:2]},
    "onednn_int8": {"oneDNN", *PRIVATE[2:4]},
    "fbgemm_float16": {*PRIVATE[4:6]},
}


@pytest.fixture
def forms():
    """The forms of each precision that this processor has while nothing is hidden."""
    processor = processor_of(CPU)
    return {
        precision: {rule.form for rule in rules} & processor.forms
        for precision, rules in TABLE[processor.instructions].items()
    }


@pytest.fixture(params=[*PRIVATE, "all", "oneDNN"])
def without(request, monkeypatch, forms):
    if request.param == "oneDNN":
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    for name in PRIVATE:
        if request.param in (name, "all"):
            hide(name, monkeypatch)
    yield set(PRIVATE) if request.param == "all" else {request.param}
    for function in (works, probe):
        function.cache_clear()


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("exact", [False, True])
def test_vectors_are_the_same(without, precision, exact, tiny, forms):
    """A precision is refused where no form of it is left, and nowhere else."""
    with force(lstm="definition", token_encoder="definition"):
        expected = tiny.encode(SENTENCES)
    if precision != "float32":
        if not forms.get(precision):
            pytest.skip(f"no {precision} on this processor")
        if all(NEEDED[form] & without for form in forms[precision]):
            with pytest.raises(ValueError, match="EL077"):
                check_precision(precision, CPU)
            return
    check_precision(precision, CPU)
    tiny.set_precision(precision).set_exact(exact)
    together = tiny.encode(SENTENCES * 20)[: len(SENTENCES)]
    alone = [tiny.encode([sentence])[0] for sentence in SENTENCES]
    for a, b in zip([*together, *alone], expected * 2):
        assert abs(a - b).max() <= TOLERANCE[precision] * max(1, abs(b).max())
