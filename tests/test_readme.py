"""Every command and every line of Python in the README runs."""

import re
import shlex
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(
    r"```(\w+)\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL
)


def blocks(language):
    return [text for name, text in BLOCKS if name == language]


@pytest.fixture
def folder(tmp_path, tiny, monkeypatch):
    """Where a reader would be: the repository, with weights and texts of their own."""
    for part in ("configs", "assets", "spacy_elmo"):
        (tmp_path / part).symlink_to(ROOT / part)
    (tmp_path / "corpus" / "demo").mkdir(parents=True)
    tiny.save(tmp_path / "published", format="bilm-tf")
    for name in ("news.txt", "held_out.txt"):
        (tmp_path / name).write_text("The cat sat on the mat. It was a good day.\n" * 9)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_python(folder):
    namespace = {}
    text = "".join(blocks("python"))
    for line in re.findall(r"^(\w[^=\n]*?) +# (\(.*?\)|[\d.]+)", text, re.MULTILINE):
        expression, said = line
        mark = f"{expression.strip()!r}"
        text = text.replace(
            expression, f"said({mark}, {said!r}, {expression.strip()})", 1
        )
    namespace["said"] = said_is_so
    exec(compile(text, "README.md", "exec"), namespace)
    assert namespace["layers"][1].shape[1] == 3


def said_is_so(expression, said, value):
    if re.fullmatch(r"[\d().,\s]+", said):
        expected = eval(said)
        if isinstance(expected, float):
            assert value == pytest.approx(expected, abs=1e-4), expression
        else:
            assert value == expected, expression


@pytest.mark.slow
def test_commands(folder):
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    assert len(lines) >= 8
    for line in lines:
        command = shlex.split(line)
        assert command[0] == "python"
        subprocess.run([sys.executable, *command[1:]], check=True, capture_output=True)


def sections(text):
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


def test_configurations():
    """What is shown stands so in the configuration that is trained."""
    ours = sections((ROOT / "configs" / "ner_elmo.cfg").read_text(encoding="utf-8"))
    shown = sections("".join(blocks("ini")))
    assert len(shown) >= 5
    for name, settings in shown.items():
        path = {"path": "${paths.bilm}"} if "path" in settings else {}
        assert {**settings, **path}.items() <= ours[name].items()


def test_make_targets_are_there():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(
        r"^make (\w+)", "\n".join(blocks("console")), re.MULTILINE
    ):
        assert f"\n{target}:" in makefile
