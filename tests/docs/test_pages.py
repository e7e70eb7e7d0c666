"""Every code block of the documentation and the README runs, or says why not."""

import ast
import shlex

import pytest

from spacy_elmo.cli import app
from spacy_elmo.errors import Errors

from ..cli.parsing import parse
from .pages import PAGES, ROOT, RUN, TASKS, blocks, commands, prepare, run

MAX_NOT_RUN = 11


def name(page):
    return page.relative_to(ROOT).as_posix()


def is_quick(block):
    if block.mark in ("not run", "slow"):
        return False
    return block.language == "ini" or (
        block.language == "python" and block.mark != "file"
    )


def takes_long(block):
    return block.mark == "slow" or (block.language == "bash" and not block.mark)


WITH_BLOCKS = [page for page in PAGES if blocks(page)]
QUICK = [page for page in WITH_BLOCKS if any(map(is_quick, blocks(page)))]
LONG = [
    page
    for page in WITH_BLOCKS
    if any(map(takes_long, blocks(page))) and name(page) not in TASKS.values()
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # pipelines are installed into it
    return tmp_path


@pytest.mark.parametrize("page", QUICK, ids=name)
def test_python_and_configurations(page, folder):
    """What takes long, and what needs it, is left out."""
    run(page, folder, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", LONG, ids=name)
def test_all_blocks(page, folder):
    """Those of tasks are run by test_tasks.py, in an environment of their own."""
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
    except Errors.EL001:  # a model that a command above it makes
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
