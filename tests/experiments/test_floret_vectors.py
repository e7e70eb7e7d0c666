"""Static vectors of a text."""

import pytest

from experiments.floret_vectors import main


def test_nothing_is_left_of_vectors_that_could_not_be_trained(tmp_path):
    """A folder of the name is whole: `train` takes it for what it is."""
    output = tmp_path / "training" / "floret"
    with pytest.raises((ImportError, OSError)):  # no floret, or no such text
        main(tmp_path / "no.txt", output, lang="en", epochs=1, threads=1)
    assert list(output.parent.iterdir()) == []
