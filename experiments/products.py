"""Matrix products of thinc's layers on a CPU, by NumPy's BLAS.

thinc's own choice, BLIS, takes about 1.3 times as long for a run of an experiment and
twice for `spacy pretrain` on an AMD EPYC (Zen 5). They differ in rounding alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from thinc.api import NumpyOps, get_current_ops, set_current_ops


@contextmanager
def by_numpy(gpu: int = -1) -> Iterator[None]:
    """For models that are made inside. gpu: with one (>= 0) nothing is changed."""
    before = get_current_ops()
    if gpu < 0:
        set_current_ops(NumpyOps(use_blis=False))
    try:
        yield
    finally:
        set_current_ops(before)
