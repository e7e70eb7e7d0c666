import pytest

from .runs import write_text


@pytest.fixture
def folder(tmp_path):
    write_text(tmp_path)
    return tmp_path
