"""One component, eight threads, weights that are swapped all the time, caches on, forks
in the middle: vectors are those of one of the models, never of a mixture.

The interpreter switches threads every microsecond. What each model gives is computed
before, alone. A thread that makes no step for a long time is taken to be locked.
"""

import faulthandler
import os
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import spacy
import torch
from spacy.tokens import Doc

from spacy_elmo import BiLM
from tests.models import tiny_config
from tests.pipelines import add_elmo, with_weights

from .report import Run

SIZES = tiny_config(
    hidden_dim=32, projection_dim=16, char_dim=16, filters=((1, 16), (3, 16))
)
THREADS = 8
PATIENCE = 120  # seconds without a read
TOLERANCE = 1e-6  # of the largest value
TEXTS = [[f"word{i}", "고양이", "x" * (i + 1), "a"] * 5 for i in range(40)]
# How a fork ends that finds something.
WRONG, RAISED, KILLED = 3, 4, -9
ENDS = {
    WRONG: "has vectors of no model",
    RAISED: "ended with an exception",
    KILLED: "did not end",
}
PHASES = ("no cache", "memory", "file")


class Crowd:
    """The component, what is right for it, and the threads' counts."""

    def __init__(self, run: Run, folder: Path) -> None:
        self.run, self.stop = run, threading.Event()
        self.nlp = spacy.blank("xx")
        self.elmo = add_elmo(self.nlp, sizes=SIZES)
        self.models = [BiLM.random(SIZES, seed=seed) for seed in (1, 2)]
        self.right = [
            [layers.mean(0) for layers in model.encode(TEXTS)] for model in self.models
        ]
        self.folder, self.lock, self.wrong = folder, threading.Lock(), 0
        self.reads = [0] * THREADS

    def read(self, number: int, limit: int) -> None:
        """Read texts until there is enough, in one thread."""
        rng = self.run.random("thread", number, limit)
        while not self.stop.is_set() and sum(self.reads) < limit:
            some = rng.sample(range(len(TEXTS)), 4)
            docs = [Doc(self.nlp.vocab, words=TEXTS[n]) for n in some]
            for n, doc in zip(some, self.nlp.pipe(docs)):
                if not any(_near(doc.tensor, right[n]) for right in self.right):
                    with self.lock:
                        self.wrong += 1
                        self.run.finding(f"vectors of no model: {doc.tensor[0, :4]}")
            self.reads[number] += sum(len(TEXTS[n]) for n in some)

    def watched(self, work: Callable[..., None], *args: int) -> None:
        """Work in a thread of its own, where an exception is a finding."""
        try:
            work(*args)
        except Exception as error:  # noqa: BLE001 (whatever ends a thread)
            self.run.finding(f"{work.__name__} ended with {error!r}")

    def swap(self) -> None:
        """Put the weights of one model or the other in place, all the time."""
        while not self.stop.is_set():
            chosen = self.models[self.run.counts["swaps of weights"] % 2]
            copied = BiLM(SIZES)
            copied.load_state_dict(chosen.state_dict())
            with_weights(self.elmo, copied)
            self.run.counts["swaps of weights"] += 1
            time.sleep(0.002)

    def fork(self) -> None:
        """Read once in a fork, which must end by itself."""
        child = os.fork()
        if child == 0:
            self.read_in_a_fork()
        waits = 0  # not the clock: a machine that stands still in between is no lock
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            waits += 1
            if waits == PATIENCE * 100:
                os.kill(child, 9)
            time.sleep(0.01)
        if status := os.waitstatus_to_exitcode(ended[1]):
            self.run.finding(f"a fork {ENDS.get(status, f'ended with {status}')}")
        self.run.counts["forks"] += 1

    def read_in_a_fork(self) -> NoReturn:
        """Read once, and end with 0 if the vectors are those of a model."""
        status = RAISED
        try:
            sys.setswitchinterval(0.005)
            faulthandler.dump_traceback_later(PATIENCE - 20)  # where it waits
            doc = self.nlp(Doc(self.nlp.vocab, words=TEXTS[0]))
            right = any(_near(doc.tensor, each[0]) for each in self.right)
            status = 0 if right else WRONG
        except BaseException:  # noqa: BLE001 (a fork must not go on as the attack)
            traceback.print_exc()
        finally:
            os._exit(status)


def _near(found: np.ndarray, right: np.ndarray) -> bool:
    return bool(np.abs(found - right).max() <= TOLERANCE * np.abs(right).max())


def attack(run: Run) -> None:
    """Let threads read with no cache, one in memory, and one in a file."""
    wanted = run.count or 1_000_000
    interval = sys.getswitchinterval()
    torch.set_num_threads(1)
    sys.setswitchinterval(1e-6)
    try:
        for number, phase in enumerate(PHASES):
            with tempfile.TemporaryDirectory() as folder:
                seconds = run.seconds_left / (len(PHASES) - number)
                _phase(Crowd(run, Path(folder)), phase, wanted // 3 + 1, seconds)
    finally:
        sys.setswitchinterval(interval)


def _phase(crowd: Crowd, phase: str, limit: int, seconds: float) -> None:
    if phase != "no cache":
        where = "memory" if phase == "memory" else crowd.folder / "layers"
        crowd.elmo.use_layer_cache(where)
    threads = [
        threading.Thread(
            target=crowd.watched, args=(crowd.read, number, limit), daemon=True
        )
        for number in range(THREADS)
    ]
    swapper = threading.Thread(target=crowd.watched, args=(crowd.swap,), daemon=True)
    for thread in [swapper, *threads]:
        thread.start()
    until, before, still = time.monotonic() + seconds, -1, 0
    while sum(crowd.reads) < limit and time.monotonic() < until:
        time.sleep(0.5)
        if hasattr(os, "fork"):
            crowd.fork()
        if sum(crowd.reads) != before:
            before, still = sum(crowd.reads), 0
            continue
        still += 1
        if still > 2 * PATIENCE:
            crowd.run.finding(f"no thread reads any more ({phase})")
            break
    crowd.stop.set()
    for thread in [swapper, *threads]:
        thread.join(PATIENCE)
        if thread.is_alive():
            crowd.run.finding(f"a thread does not end ({phase})")
    crowd.run.counts["tokens"] += sum(crowd.reads)
    crowd.run.counts[f"tokens ({phase})"] += sum(crowd.reads)
    crowd.run.counts["wrong vectors"] += crowd.wrong
