"""Ten tasks of a new user: each has one page, which runs offline with the wheel."""

import os
import subprocess

import pytest

from ..wheels import fresh_python
from .pages import ROOT, TASKS, blocks

# Without a network, but for the machine itself.
OFFLINE = ["unshare", "--net", "--map-root-user"]
LOOPBACK = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    return fresh_python(tmp_path_factory)


@pytest.fixture(scope="module")
def offline():
    """Return what a command begins with to run offline; nothing where it can't."""
    command = [*OFFLINE, *LOOPBACK]
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return command


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_page_shows_how(task, python, offline, tmp_path):
    done = subprocess.run(
        [*offline, python, ROOT / "tests" / "docs" / "pages.py", TASKS[task]],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    where = done.stdout.splitlines()[0].removeprefix("spacy_elmo is ")
    assert where.startswith(str(python.parents[1])), where


@pytest.mark.parametrize("task", TASKS)
def test_most_of_it_is_run(task):
    found = blocks(ROOT / TASKS[task])
    not_run = [block for block in found if block.mark == "not run"]
    assert len(found) > 1 and len(not_run) <= 1
