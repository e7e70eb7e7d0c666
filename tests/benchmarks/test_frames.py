"""The road of a sentence through the package stays short enough to be followed."""

import pytest

from benchmarks.frames import DEPTH, FILES, TEXT, follow, warm_pipeline
from spacy_elmo.bilm.kernels import find_library


@pytest.mark.skipif(
    find_library() is None, reason="the library is not built, or not wanted"
)
def test_a_warm_sentence():
    road = follow(warm_pipeline(), TEXT)
    assert len(road.files) <= FILES
    assert len(road.deepest) <= DEPTH
    assert road.deepest[0] == ("pipeline/component.py", "Elmo.predict")
