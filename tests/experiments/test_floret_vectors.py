"""Static vectors of a text."""

import pytest

from experiments.floret_vectors import main


def test_nothing_is_left_of_vectors_that_could_not_be_trained(tmp_path):
    """A folder of the name is whole: `train` takes it for what it is."""
    output = tmp_path / "training" / "floret"
    with pytest.raises((ImportError, OSError)):  # no floret, or no such text
        main(tmp_path / "no.txt", output, lang="en", epochs=1, threads=1)
    assert list(output.parent.iterdir()) == []


def test_a_folder_that_is_there_is_kept(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SystemExit):
        main(tmp_path / "no.txt", tmp_path, lang="en", epochs=1, threads=1)
    assert "is there: remove it" in " ".join(capsys.readouterr().out.split())
    assert (tmp_path / "mine.txt").read_text() == "mine"
