"""Every code block of the documentation and the README runs, or says why not."""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.cli import app

from ..cli.parsing import parse
from ..models import tiny_config
from .pages import PAGES, ROOT, RUN, blocks, check_config, commands, run_python

WITH_BLOCKS = [page for page in PAGES if blocks(page)]
MAX_NOT_RUN = 8


def name(page):
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a reader is: in the repository, with weights and corpora of their own."""
    for part in ("configs", "assets", "examples", "experiments"):
        (tmp_path / part).symlink_to(ROOT / part)
    BiLM.random(tiny_config(), seed=1).save(tmp_path / "published", format="bilm-tf")
    text = (ROOT / "assets" / "demo" / "dev.txt").read_text(encoding="utf-8")
    for file in ("news.txt", "held_out.txt", "general.txt"):
        (tmp_path / file).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # pipelines are installed into it
    return tmp_path


def run(page, folder, *, slow):
    namespace = {"__name__": "page"}
    for block in blocks(page):
        if block.mark == "not run" or (block.mark == "slow" and not slow):
            continue
        if block.mark == "file":
            path = folder / block.said
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        if block.language == "ini":
            check_config(block, folder)
        elif block.language == "python" and block.mark != "file":
            run_python(block, namespace)
        elif block.language == "bash" and slow:
            for command in commands(block):
                run_command(command, str(block), folder)


def run_command(command, where, folder):
    # What the script does, which is not beside every Python.
    command = re.sub(r"^torchrun ", "python -m torch.distributed.run ", command)
    # Into the folder, which Python looks for packages in, and not beside every other.
    into = "pip install --no-index --no-deps --target ."
    command = command.replace("pip install dist/", f"{into} dist/")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{where}: {command}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name)
def test_python_and_configurations(page, folder):
    """What takes long, and what needs it, is left out."""
    run(page, folder, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name)
def test_all_blocks(page, folder):
    if all(b.language != "bash" and b.mark != "slow" for b in blocks(page)):
        pytest.skip("all of it is run without the slow tests too")
    run(page, folder, slow=True)


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name)
def test_commands_are_understood(page, folder):
    for block in blocks(page):
        if block.language == "python":
            ast.parse(block.text)
        elif block.language == "bash" and block.mark != "not run":
            for command in commands(block):
                check_command(shlex.split(command, comments=True))


def check_command(words):
    if words[:4] != ["python", "-m", "spacy", "elmo"]:
        return
    stop = next((i for i, word in enumerate(words) if word in ("|", ">")), None)
    try:
        parse(app, words[4:stop])
    except SystemExit:  # a model that a command above it makes
        return


def test_every_block_is_run_or_says_why_not():
    found = [block for page in PAGES for block in blocks(page)]
    assert len(found) > 60
    for block in found:
        if block.mark == "not run":
            assert len(block.said.split()) > 3, f"{block}: no reason"
        elif block.mark != "file":
            assert block.language in RUN, f"{block}: '{block.language}' is not run"
    not_run = [str(block) for block in found if block.mark == "not run"]
    assert len(not_run) <= MAX_NOT_RUN, not_run
