"""SIGKILL at every operation on files of every writer: what is read afterwards, by the
reader alone, is what was there before or what was to be written; work that was cut
short is done again, to the same bytes. And loss of power in saving (power.py).

Operations are counted where processes call the system (kill_at.c), so those of SQLite
and safetensors count too. Needs Linux and a C compiler.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from spacy_elmo.pretrain.loop import pretrain
from tests.pretrain.runs import CONFIG, config, settled, write_text

from . import power
from .files import memory_disk
from .processes import in_a_fork, start_again
from .report import Run
from .writers import WRITERS, Writer

SOURCE = Path(__file__).with_name("kill_at.c")
PRELOADED = "ATTACKS_KILL_AT"  # set in the process that has the library


def attack(run: Run) -> None:
    """Kill each writer at each operation, then a training at random moments."""
    if os.environ.get(PRELOADED) is None:
        _start_again(run)
        return
    library = ctypes.CDLL(os.environ[PRELOADED])
    library.kill_at.argtypes = [ctypes.c_char_p, ctypes.c_long]
    library.record.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    with tempfile.TemporaryDirectory(dir=memory_disk()) as folder:
        for name in ("model", "checkpoint"):
            writer = WRITERS[name]()
            power.attack(run, library, name, writer, Path(folder) / name)
        for name, make in WRITERS.items():
            _kill_writer(run, library, name, make(), Path(folder))
        _kill_training(run, Path(folder))


def _start_again(run: Run) -> None:
    """Run this attack in a process that counts its operations on files."""
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/kill_at.so"
        compiler = ["cc", "-shared", "-fPIC", "-w", "-o", library, str(SOURCE), "-ldl"]
        subprocess.run(compiler, check=True)
        start_again(run, (), LD_PRELOAD=library, **{PRELOADED: library})


def _kill_writer(
    run: Run, library: ctypes.CDLL, name: str, writer: Writer, folder: Path
) -> None:
    place, number = folder / "place", 0
    allowed = []
    for write in (writer.old, writer.new):
        write(place)
        allowed.append(writer.read(place))
    finished = False
    while not finished and run.seconds_left > 0:
        number += 1
        shutil.rmtree(place)
        writer.old(place)

        def work(at: int = number) -> None:
            library.kill_at(str(folder).encode(), at)
            writer.new(place)

        status = in_a_fork(work)
        finished = status == 0
        if status not in (0, signal.SIGKILL):
            run.finding(f"{name}: ended with {status} at operation {number}")
        try:
            found = writer.read(place)
            if found not in allowed or (finished and found != allowed[1]):
                run.finding(f"{name}: other content after operation {number}")
            writer.new(place)
            if writer.read(place) != allowed[1]:
                run.finding(f"{name}: not written again after operation {number}")
        except (OSError, ValueError) as error:
            run.finding(f"{name}: killed at operation {number}: {error}")
        run.counts[f"kills of {name}"] += not finished
    shutil.rmtree(place)
    if not finished:
        run.counts["writers for which time was short"] += 1


def _kill_training(run: Run, folder: Path) -> None:
    """Kill a training at random moments until it is done, and compare what it leaves
    with that of one that nobody killed."""
    write_text(folder)
    text = CONFIG.replace("epochs = 3", "epochs = 10")
    settings, rng = config(folder, text), run.random("training")
    started = time.monotonic()
    in_a_fork(lambda: pretrain(settings, folder / "whole"))
    seconds = time.monotonic() - started
    output = folder / "killed"
    while run.goes_on(run.counts["kills of a training"]):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                pretrain(settings, output)
                status = 0
            finally:  # never on into the attack itself
                os._exit(status)
        time.sleep(rng.random() * seconds / 2)
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if status == 0:  # it was done: from the start again
            _compare(run, output, folder / "whole")
            shutil.rmtree(output)
        elif status != signal.SIGKILL:
            run.finding(f"a training did not resume: it ended with {status}")
            return
        run.counts["kills of a training"] += 1
    in_a_fork(lambda: pretrain(settings, output))
    _compare(run, output, folder / "whole")


def _compare(run: Run, output: Path, whole: Path) -> None:
    run.counts["trainings compared"] += 1
    if settled(output) != settled(whole):
        run.finding("a training that was killed ended with other files")
