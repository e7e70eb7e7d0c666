"""SIGKILL at every operation on files of every writer: what is read afterwards, by the
reader alone, is what was there before or what was to be written; work that was cut
short is done again, to the same bytes. And loss of power in saving (power.py).

Operations are counted where processes call the system (kill_at.c), so those of SQLite
and safetensors count too. Needs Linux and a C compiler.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import spacy

from spacy_elmo import BiLM
from spacy_elmo.component.file_cache import FileCache
from spacy_elmo.pretrain import checkpoint
from spacy_elmo.pretrain.loop import pretrain
from spacy_elmo.text.prepare import Request, prepare
from tests.models import tiny_config
from tests.pipelines import add_elmo
from tests.pretrain.runs import CONFIG, config, settled, write_text

from . import makers, power
from .report import Run

SOURCE = Path(__file__).with_name("kill_at.c")
PRELOADED = "ATTACKS_KILL_AT"  # set in the process that has the library


class Writer(NamedTuple):
    """What writes files. old: makes what is there before; new: what is killed; read:
    returns what is there, and raises if it can't be read."""

    old: Callable[[Path], object]
    new: Callable[[Path], object]
    read: Callable[[Path], str]


def _save(seed: int, format: str) -> Callable[[Path], object]:
    bilm = BiLM.random(tiny_config(), seed=seed, vocab=makers.VOCAB)
    return lambda folder: bilm.save(folder, format=format)


def _save_checkpoint(step: int) -> Callable[[Path], object]:
    model, learners = makers.small_training()
    state = model.bilm.zero_state(2)
    progress = {"step": step}
    return lambda folder: checkpoint.save(folder, model, learners, state, progress)


def _fill_cache(part: slice) -> Callable[[Path], None]:
    some = dict(list(makers.CACHED.items())[part])

    def fill(folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        cache = FileCache(folder / "layers.sqlite", 64 << 20)
        cache.write(some)
        cache.close()

    return fill


def _fingerprint(folder: Path) -> str:
    return BiLM.load(folder).fingerprint()


def _save_pipeline(seed: int) -> Callable[[Path], object]:
    nlp = spacy.blank("xx")
    add_elmo(nlp, seed=seed)
    return nlp.to_disk


def _component(folder: Path) -> str:
    """The component alone: what lies beside it is spaCy's, which writes in place."""
    elmo = add_elmo(spacy.blank("xx"), seed=3)
    return str(elmo.from_disk(folder / "elmo", exclude=["vocab"]).fingerprint())


def _prepare(number: int) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        text = folder.with_name(f"text{number}.txt")
        text.write_text(f"Text {number} 고양이 .\n" * 30)
        request = Request(tokenizer="whitespace")
        prepare([text], folder, request, overwrite=True, progress=False)

    return write


WRITERS: dict[str, Callable[[], Writer]] = {
    "model": lambda: Writer(
        _save(1, "spacy-elmo"), _save(2, "spacy-elmo"), _fingerprint
    ),
    "checkpoint": lambda: Writer(
        _save_checkpoint(1),
        _save_checkpoint(2),
        lambda folder: str(checkpoint.read_progress(folder)),
    ),
    "component of a pipeline": lambda: Writer(
        _save_pipeline(1), _save_pipeline(2), _component
    ),
    "prepared text": lambda: Writer(
        _prepare(1), _prepare(2), lambda folder: makers.read_prepared(folder).value
    ),
    "layer cache": lambda: Writer(
        _fill_cache(slice(0, 20)),
        _fill_cache(slice(20, 40)),
        lambda folder: makers.read_layer_cache(folder).value,
    ),
}


def attack(run: Run) -> None:
    """Kill each writer at each operation, then a training at random moments."""
    if os.environ.get(PRELOADED) is None:
        _start_again(run)
        return
    library = ctypes.CDLL(os.environ[PRELOADED])
    library.kill_at.argtypes = [ctypes.c_char_p, ctypes.c_long]
    library.record.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    with tempfile.TemporaryDirectory(dir=_disk()) as folder:
        for name in ("model", "checkpoint"):
            writer = WRITERS[name]()
            power.attack(run, library, name, writer, Path(folder) / "power")
        for name, make in WRITERS.items():
            _kill_writer(run, library, name, make(), Path(folder))
        _kill_training(run, Path(folder))


def _disk() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _start_again(run: Run) -> None:
    """Run this attack in a process that counts its operations on files."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "kill_at.so"
        compiler = ["cc", "-shared", "-fPIC", "-w", "-o", library, SOURCE, "-ldl"]
        subprocess.run(list(map(str, compiler)), check=True)
        environment = {
            **os.environ,
            "LD_PRELOAD": str(library),
            PRELOADED: str(library),
        }
        code = (
            "import json; from pathlib import Path; from attacks.report import Run; "
            "from attacks import kills; "
            f"run = Run('kills', {run.seconds_left / 60}, {run.seed}, {run.count}); "
            "import warnings; warnings.simplefilter('ignore'); kills.attack(run); "
            f"Path({str(Path(folder) / 'told')!r}).write_text("
            "json.dumps([run.counts, run.findings]))"
        )
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        counts, findings = json.loads((Path(folder) / "told").read_text())
        run.counts.update(counts)
        run.findings += findings


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
            pretrain(settings, output)
            os._exit(0)
        time.sleep(rng.random() * seconds / 2)
        os.kill(child, signal.SIGKILL)
        if os.waitpid(child, 0)[1] == 0:  # it was done: from the start again
            _compare(run, output, folder / "whole")
            shutil.rmtree(output)
        run.counts["kills of a training"] += 1
    in_a_fork(lambda: pretrain(settings, output))
    _compare(run, output, folder / "whole")


def _compare(run: Run, output: Path, whole: Path) -> None:
    run.counts["trainings compared"] += 1
    if settled(output) != settled(whole):
        run.finding("a training that was killed ended with other files")
