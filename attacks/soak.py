"""Long work, and the memory of the process: what it takes when half is done is what it
takes at the end.

`nlp.pipe` reads varied text, with a layer cache that is far too small for it, and a
small biLM is trained; each in a process of its own.
"""

import os
import random
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import spacy
from spacy.tokens import Doc

from spacy_elmo.pretrain import checkpoint
from spacy_elmo.pretrain.loop import pretrain
from tests.models import tiny_config
from tests.pipelines import add_elmo
from tests.pretrain.runs import CONFIG, config, write_text

from .report import Run

TOKENS, STEPS = 10_000_000, 20_000
GROWTH = 0.01  # at most, of what is taken when half is done
# Seconds, before which nothing is judged: caches fill.
WARM = 60.0
# Words of all lengths; the vocabulary of spaCy keeps each, so there are so many.
TYPES = 20_000
CACHE = 8  # MB, which are full when half is done
LENGTHS = 1, 5, 20, 60, 120, 400  # tokens of a Doc
SIZES = tiny_config(
    hidden_dim=32, projection_dim=16, char_dim=16, filters=((1, 16), (3, 16))
)
EVERY = 0.1  # seconds, after which memory is looked at


def attack(run: Run) -> None:
    """Read, then train. `count` is of tokens; of steps it is a five-hundredth."""
    tokens = run.count or TOKENS
    steps = max(1, tokens * STEPS // TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        read = place / "tokens"
        read.touch()
        _watch(run, place, 0.6, lambda: _read(run, tokens, read))
        done = sum(map(int, read.read_text().split()))
        _judge(run, f"of {tokens:,} tokens", done, place)
        _watch(run, place, 1.0, lambda: _train(steps, place))
        progress = checkpoint.read_progress(place / "run") or {"step": 0}
        _judge(run, f"of {steps:,} steps of training", progress["step"], place)


def _read(run: Run, n_tokens: int, lengths: Path) -> None:
    """Let a pipeline read, and append to a file how many tokens each Doc has."""
    nlp = spacy.blank("xx")
    add_elmo(nlp, sizes=SIZES).use_layer_cache("memory", CACHE)
    rng, done = run.random("text"), 0
    words = [_word(rng) for _ in range(TYPES)]
    for word in words:  # so that all are known before memory is compared
        nlp.vocab[word]

    def docs() -> Iterator[Doc]:
        while True:
            some = rng.choices(words, k=rng.choice(LENGTHS))
            yield Doc(nlp.vocab, words=some)

    with lengths.open("w", buffering=1) as file:
        for doc in nlp.pipe(docs(), batch_size=256):
            file.write(f"{len(doc)}\n")
            done += len(doc)
            if done >= n_tokens:
                return


def _word(rng: random.Random) -> str:
    letters = rng.choice(["abcdefgh", "가나다라마바사", "αβγδ", "😀🎉", "0123456789.,"])
    return "".join(rng.choices(letters, k=rng.randint(1, 20)))


def _train(n_steps: int, folder: Path) -> None:
    write_text(folder)
    text = CONFIG.replace("epochs = 3", f"epochs = 1000000\nmax_steps = {n_steps}")
    text = text.replace("eval_every = 20", "eval_every = 500")
    text = text.replace("save_every = 10", "save_every = 100")
    pretrain(config(folder, text), folder / "run")


def _watch(run: Run, place: Path, share: float, work: Callable[[], None]) -> None:
    """Do some work in a fork, which writes down what memory it takes."""
    until = time.monotonic() + share * run.seconds_left
    memory = place / "memory"
    memory.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            threading.Thread(target=_sample, args=(memory,), daemon=True).start()
            work()
            status = 0
        finally:
            os._exit(status)
    status = None
    while status is None and time.monotonic() < until:
        time.sleep(EVERY)
        found, how = os.waitpid(child, os.WNOHANG)
        status = how if found else None
    if status is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    elif status:
        run.finding(f"ended with {status}")


def _sample(path: Path) -> None:
    """Append the bytes that this process takes to a file, all the time."""
    page = os.sysconf("SC_PAGE_SIZE")
    with path.open("w", buffering=1) as file:
        while True:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            file.write(f"{pages * page}\n")
            time.sleep(EVERY)


def _judge(run: Run, what: str, done: int, place: Path) -> None:
    """Compare the memory of the last tenth with that of the tenth before the middle."""
    taken = [int(line) for line in (place / "memory").read_text().split()]
    tenth = max(1, len(taken) // 10)
    middle = len(taken) // 2
    before = statistics.median(taken[max(0, middle - tenth) : middle] or taken)
    after = statistics.median(taken[-tenth:])
    growth = after / before - 1
    run.counts[what] += done
    run.notes[f"{what}: MB at half, at the end"] = (
        f"{before / 1e6:.1f}, {after / 1e6:.1f}"
    )
    if growth > GROWTH and len(taken) * EVERY > WARM:
        run.finding(f"{what}: memory grew by {growth:.1%} in the second half")
