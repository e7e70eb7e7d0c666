"""Forked processes compute, with as many threads as the machine has.

Each test runs a process of its own, and fails if that waits for ever.
"""

import os
import signal
import subprocess
import sys

import pytest

from .project import ROOT

LIMIT = 1000  # seconds, on a machine with much else to do
QUICK = "fork", "n_process_fork"
LONG = (
    "fork_in_c",
    "call_in_c",
    "fork_and_embed",
    "fork_in_a_thread",
    "threads_in_the_child",
    "child_sets_threads",
    "only_loaded",
    "imported_later",
    "pool",
    "preloaded",
    "n_process_spawn",
    "n_process_forkserver",
)
WAYS = [*QUICK, *(pytest.param(way, marks=pytest.mark.slow) for way in LONG)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("way", WAYS)
def test_other_processes_compute(way, tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    # Threads that wait for others sleep, and leave the processor to other tests.
    environment["OMP_WAIT_POLICY"] = "passive"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.forked", way, str(tmp_path)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=LIMIT)
        finally:  # its children too
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said
