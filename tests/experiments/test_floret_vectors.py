"""Static vectors of a text: what is found out before the training, not after it."""

import pytest

from experiments.floret_vectors import main


def test_the_folder_is_made_before_anything_is_trained(tmp_path):
    output = tmp_path / "training" / "floret"
    with pytest.raises((ImportError, OSError)):  # no floret, or no such text
        main(tmp_path / "no.txt", output, lang="en", epochs=1, threads=1)
    assert output.is_dir()
