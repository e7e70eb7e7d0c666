"""Streams that are not UTF-8 show what they can, and end no command."""

import json
import os
import subprocess
import sys

import pytest

from ..explore.views import tiny_bilm, tiny_softmax

ENCODINGS = [
    "cp949",
    "ascii",
    pytest.param("cp1252", marks=pytest.mark.slow),
    pytest.param("utf-8", marks=pytest.mark.slow),
]
WORD = "배가"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model and a text, with names in Hangul."""
    path = tmp_path_factory.mktemp("말뭉치")
    bilm = tiny_bilm()
    bilm.save(path / "모델", softmax=tiny_softmax(bilm))
    lines = [
        "항구에 커다란 배가 들어왔다.",
        "배가 아파서 약을 먹었다 😀.",
        "배가 섬에 갔다.",
    ]
    (path / "글.txt").write_text("\n".join(lines), encoding="utf-8")
    return path


def run(folder, encoding, *arguments):
    """Return the exit status and the bytes of standard output."""
    environment = {**os.environ, "PYTHONIOENCODING": f"{encoding}:strict"}
    command = [sys.executable, "-m", "spacy", "elmo", *arguments]
    how = {"cwd": folder, "capture_output": True, "env": environment}
    done = subprocess.run(command, **how, check=False)
    assert b"Traceback" not in done.stderr, done.stderr.decode(encoding, "replace")
    return done.returncode, done.stdout


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_results_are_shown(folder, encoding):
    shown = WORD.encode(encoding, "backslashreplace")
    asked = ["explore", "word", "모델", "글.txt", "--word", WORD, "--lang", "xx"]
    status, out = run(folder, encoding, *asked)
    assert status == 0 and out.count(b"[" + shown + b"]") == 12
    status, out = run(folder, encoding, *asked, "--json")
    assert status == 0
    rows = json.loads(out.decode(encoding))
    assert {word for row in rows for word in row["context"].split()} >= {f"[{WORD}]"}
    assert any("😀" in row["context"] + row["nearest"] for row in rows)
    status, out = run(folder, encoding, *asked, "-o", "-")
    assert status == 0 and WORD in out.decode("utf-8")  # as the page says of itself


@pytest.mark.parametrize(
    "encoding", ["cp1252", pytest.param("ascii", marks=pytest.mark.slow)]
)
def test_messages_are_shown(folder, encoding):
    def escaped(text):
        return text.encode(encoding, "backslashreplace")

    out = f"준비-{encoding}"
    status, said = run(folder, encoding, "prepare", "글.txt", "-o", out, "--silent")
    assert status == 0 and escaped(out) in said
    assert WORD in (folder / out / "words.txt").read_text(encoding="utf-8").split()
    out = f"벡터-{encoding}"
    status, said = run(folder, encoding, "embed", "run", "모델", "글.txt", "-o", out)
    assert status == 0 and escaped(out) in said and escaped("모델") in said
    status, said = run(folder, encoding, "info", "없는모델")
    assert status == 1 and b"EL001" in said
    assert escaped("없는모델") in said.replace(b"\n", b"")
