"""A small model, and a text of sixty lines."""

import pytest

from .corpora import save_model, write_lines


@pytest.fixture
def model(tmp_path):
    return save_model(tmp_path / "model")


@pytest.fixture
def text(tmp_path):
    return write_lines(tmp_path / "a.txt")
