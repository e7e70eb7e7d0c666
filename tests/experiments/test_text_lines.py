"""Lines of a text that are cut out of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from experiments.text.lines import copy_lines

CLONE = Path(__file__).resolve().parents[2]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("하나\nzwei\r\ntrois\n\nfünf".encode())
    return path


@pytest.mark.parametrize(
    ("skip", "limit", "expected"),
    [
        (0, 2, "하나\nzwei\r\n"),
        (2, None, "trois\n\nfünf"),
        (1, 2, "zwei\r\ntrois\n"),
        (4, 9, "fünf"),
    ],
)
def test_the_lines_are_copied_as_they_are(text, tmp_path, skip, limit, expected):
    output = tmp_path / "part.txt"
    assert copy_lines(text, output, skip, limit) == expected.count("\n") + (
        not expected.endswith("\n")
    )
    assert output.read_bytes() == expected.encode()


def test_a_part_with_no_lines_is_an_error_and_is_not_written(text, tmp_path):
    output = tmp_path / "part.txt"
    with pytest.raises(ValueError, match=r"has no lines after the first 5"):
        copy_lines(text, output, 5, None)
    assert not output.exists()


def test_the_two_parts_of_a_text_are_the_text(text, tmp_path):
    command = [sys.executable, "-m", "experiments.text", "lines", str(text)]
    for name, option in (("one", "--limit"), ("two", "--skip")):
        output = str(tmp_path / name)
        subprocess.run([*command, output, option, "3"], cwd=CLONE, check=True)
    parts = [(tmp_path / name).read_bytes() for name in ("one", "two")]
    assert b"".join(parts) == text.read_bytes()
