"""How often arrays are computed with: once a batch, however many Docs it is of."""

from collections import Counter

import numpy as np
import pytest
import spacy
from thinc.api import NumpyOps

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


def calls_of(n_docs, frozen):
    nlp, calls = spacy.blank("en"), Counter()
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
    return calls


@pytest.mark.parametrize("frozen", [True, False], ids=["predict", "update"])
def test_calls_do_not_grow_with_docs(frozen):
    """Two uploads of indices and one scatter a batch, and one mix."""
    few, many = calls_of(2, frozen), calls_of(50, frozen)
    assert few == many
    assert many["asarray"] == 2
    assert many["einsum"] == frozen
