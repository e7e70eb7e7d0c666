"""Processes of attacks: a fork that does some work, and an attack that starts again in
other surroundings."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from .report import Run


def in_a_fork(work: Callable[[], object]) -> int:
    """Return how a copy of this process ended that does some work: 0 if well."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def error_in_a_fork(work: Callable[[], object]) -> str | None:
    """Do some work in a copy of this process. Return what it raised, as its type and
    text, None if nothing."""
    reading, writing = os.pipe()

    def tell() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 (all that may come is told)
            os.write(writing, f"{type(error).__name__}: {error}"[:2000].encode())

    status = in_a_fork(tell)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said = file.read().decode(errors="replace")
    return said or (f"ended with {status}" if status else None)


def start_again(run: Run, prefix: Sequence[str], **environment: str) -> None:
    """Run an attack in a process of its own, behind a command and with an environment,
    and take over what it finds."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        of_run = run.attack, run.seconds_left / 60, run.seed, run.count
        code = (
            "import importlib, json, warnings; from pathlib import Path; "
            "from attacks.report import Run; warnings.simplefilter('ignore'); "
            f"run = Run(*{of_run!r}); "
            f"importlib.import_module('attacks.{run.attack}').attack(run); "
            f"Path({str(told)!r}).write_text("
            "json.dumps([run.counts, run.findings, run.notes]))"
        )
        command = [*prefix, sys.executable, "-c", code]
        subprocess.run(command, check=True, env={**os.environ, **environment})
        counts, findings, notes = json.loads(told.read_text())
    run.counts.update(counts)
    run.findings += findings
    run.notes |= notes
