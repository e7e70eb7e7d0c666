"""How often arrays are computed with: once a batch, however many Docs it is of."""

from collections import Counter

import numpy as np
import pytest
import spacy
from thinc.api import NumpyOps
from torch.utils._python_dispatch import TorchDispatchMode

from ..pipelines import add_elmo


class CountingXp:
    """NumPy, which counts the calls of its functions."""

    def __init__(self, calls):
        self.calls = calls

    def __getattr__(self, name):
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found

        def counted(*args, **kwargs):
            self.calls[name] += 1
            return found(*args, **kwargs)

        return counted


class CountingOps(NumpyOps):
    def __init__(self, calls):
        super().__init__()
        self.calls, self.xp = calls, CountingXp(calls)

    def alloc(self, *args, **kwargs):
        self.calls["alloc"] += 1
        return super().alloc(*args, **kwargs)


class CountingTorch(TorchDispatchMode):
    """Counts what moves rows from array to array."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in ("index_copy_", "index_select"):
            self.calls[name] += 1
        return func(*args, **(kwargs or {}))


def calls_of(n_docs, frozen):
    calls = Counter()
    with CountingTorch(calls):
        read(n_docs, frozen, calls)
    return calls


def read(n_docs, frozen, calls):
    nlp = spacy.blank("xx")
    elmo = add_elmo(nlp, frozen=frozen, model={"batch_tokens": 10_000})
    for node in elmo.model.walk():
        node.ops = CountingOps(calls)
    docs = [nlp.make_doc("I like Paris and you too") for _ in range(n_docs)]
    if frozen:
        elmo.set_annotations(docs, elmo.predict(docs))
        expected = elmo.bilm.encode([[token.text for token in docs[0]]])[0]
        np.testing.assert_allclose(docs[-1].tensor, expected.mean(0), atol=1e-6)
    else:
        layers, backprop = elmo.model.begin_update(docs)
        layers.values[:] = 1
        backprop(layers)


@pytest.mark.parametrize("frozen", [True, False], ids=["predict", "update"])
def test_calls_do_not_grow_with_docs(frozen):
    """Rows are moved once for a batch, and mixed once."""
    few, many = calls_of(2, frozen), calls_of(50, frozen)
    assert few == many
    assert many["einsum"] == frozen
