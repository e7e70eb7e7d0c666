"""Damaged files of every kind: a coded error, or what was there, and never more memory
than the files explain.

A process of its own reads them, so that a crash or a reader that waits for ever ends
that process alone.
"""

import multiprocessing
import os
import random
import re
import shutil
import tempfile
import traceback
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from .makers import Found
from .mutations import mutate
from .report import Run
from .targets import TARGETS, make

CORPUS = Path(__file__).parent / "corpus"
PATIENCE = 20  # seconds, after which a reader is taken to wait for ever
SPARE = 100 << 20  # bytes that a reader may take beside three times those of the files
LIMIT = 3 << 30  # bytes that the reading process may take in all, above what it has
CODED = re.compile(r"\[ELW?\d+\]")


def attack(run: Run) -> None:
    """Mutate a file of each target in turn, until time or count is used up."""
    with tempfile.TemporaryDirectory(dir=memory_disk()) as folder:
        readers = Readers(Path(folder))
        done = 0
        while run.goes_on(done):
            name = list(TARGETS)[done % len(TARGETS)]
            case = f"{run.seed}/{name}/{done}"
            outcome = readers.read(name, case)
            run.counts["files"] += 1
            run.counts[outcome["outcome"]] += 1
            if outcome["outcome"] not in ALLOWED:
                run.finding(f"{outcome} (case {case})")
                _keep(
                    Path(folder) / "work",
                    readers.changed,
                    run.output / name / str(done),
                )
            done += 1
        readers.close()


ALLOWED = (
    "coded errors", "same content", "other fingerprint", "other text",
    "warned of no checksum",
)  # fmt: skip


def judge(name: str, folder: Path, right: Found) -> dict[str, str]:
    """Read a folder. Return the outcome, and what was raised."""
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = TARGETS[name].read(folder)
    except Exception as error:  # noqa: BLE001 (all that may come is judged)
        said = f"{type(error).__name__}: {str(error)[:200]}"
        if CODED.search(str(error)) and isinstance(error, (ValueError, OSError)):
            return {"outcome": "coded errors", "said": said}
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return {"outcome": "raw errors", "said": said, "where": where}
    if found.value == right.value:
        return {"outcome": "same content"}
    kind, other = TARGETS[name].kind, found.fingerprint != right.fingerprint
    if kind == "foreign" and other:
        return {"outcome": "other fingerprint"}
    if kind == "own" and any("[ELW52]" in str(each.message) for each in told):
        return {"outcome": "warned of no checksum"}
    return {"outcome": "other text" if kind == "free" else "silent changes"}


# -- the process that reads -------------------------------------------------------


def _serve(connection: Connection, folder: Path) -> None:
    """Mutate and read what is asked for, in limited memory."""
    import resource  # here, since Windows has none

    right = {}
    for name in TARGETS:
        right[name] = TARGETS[name].read(folder / name)
    resource.setrlimit(resource.RLIMIT_AS, (_memory("VmSize") + LIMIT,) * 2)
    work = folder / "work"
    while (asked := connection.recv()) is not None:
        name, case = asked
        size = _copy(folder / name, work)
        target, did = TARGETS[name], ""
        if case is not None:
            rng = random.Random(case)
            path = rng.choice(target.attacked(work))
            connection.send(str(path.relative_to(work)))
            did = f"{path.name}: {mutate(path, rng)}"
        connection.send("ready")
        before = _reset_peak()
        outcome: dict[str, Any] = judge(name, work, right[name])
        taken = _memory("VmHWM") - before
        if taken > SPARE + 3 * size:
            outcome = {**outcome, "outcome": "too much memory", "taken": f"{taken:,}"}
        connection.send({**outcome, "target": name, "did": did})


def _copy(source: Path, work: Path) -> int:
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, work)
    return sum(path.stat().st_size for path in work.rglob("*") if path.is_file())


def _memory(name: str) -> int:
    """Return a figure of this process in bytes: VmSize, VmHWM or VmRSS."""
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"{name}:\s+(\d+) kB", status)
    return int(found[1]) << 10 if found else 0


def _reset_peak() -> int:
    """Begin to measure the most memory that is taken. Return what is taken now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def memory_disk() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Readers:
    """The process that reads, started again when it has died or was ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.changed = ""  # the file that was mutated last
        for name in TARGETS:
            make(name, folder / name)
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("fork")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self.folder))
        self._process.start()
        theirs.close()

    def read(self, name: str, case: str | None) -> dict[str, str]:
        """Return the outcome of a case, of the undamaged files if it is None."""
        self._connection.send((name, case))
        if case is not None:
            self.changed = str(self._connection.recv())
        try:
            self._connection.recv()  # from here on it is the reader that counts
            # A second at a time: a machine that stands still in between counts as one.
            if any(self._connection.poll(1.0) for _ in range(PATIENCE)):
                return dict(self._connection.recv())
            outcome = "hangs"
        except EOFError:
            outcome = "crashes"
        self._process.kill()
        self._process.join()
        self._start()
        return {"outcome": outcome, "target": name, "changed": self.changed}

    def close(self) -> None:
        """End the process."""
        self._connection.send(None)
        self._process.join()


def _keep(work: Path, changed: str, folder: Path) -> None:
    """Keep the file of a finding, to look at and perhaps to put into the corpus."""
    path = work / changed
    if path.is_file() and path.stat().st_size < 10 << 20:
        (folder / changed).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / changed)


# -- cases that were found before -------------------------------------------------


def replay(case: Path, folder: Path) -> dict[str, str]:
    """Read a target with the files of a case of the corpus in the place of its own.

    Args:
        case: `corpus/TARGET/NAME`, a folder with files by their places in the target.
        folder: To work in.
    """
    name = case.parent.name
    target = make(name, folder / name)
    right = target.read(folder / name)
    shutil.copytree(case, folder / name, dirs_exist_ok=True)
    return judge(name, folder / name, right)
