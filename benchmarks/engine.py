"""How many times as fast as another revision sentences are read on this CPU.

    python -m benchmarks.engine 76d3c6b [TEXT]

The other revision is unpacked beside this tree, and both read the same sentences in
turn, each in a process of its own. What counts is the median over rounds; on one thread
of the processor's time, which other work on the machine changes less, on two of the
time that passes.
"""

import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import typer

from .revisions import ROOT, Tree, check_out
from .speed import read_sentences, show
from .timing import TEXT

WORKER = Path(__file__).with_name("engine_worker.py")
MODELS = ["en_elmo_sm", "small", "original"]
PRECISIONS = ["float32", "half"]
SENTENCES_AT_ONCE = [64, 4, 1]
TOKENS = 1_400  # 64 sentences of English
# Times that a case is measured in a round: about a tenth of a second of the old one.
TIMES = {64: 1, 4: 3, 1: 10}


class Case(NamedTuple):
    """What is measured: sentences at once, with or without a cache of token vectors."""

    model: str
    precision: str
    sentences: int
    warm: bool = True
    threads: int = 1

    def __str__(self) -> str:
        if self.sentences > 1:
            return f"{self.sentences} sentences, {'warm' if self.warm else 'cold'}"
        return f"one sentence of 20, {'warm' if self.warm else 'cold'}"


class Worker:
    """A process that reads sentences with one revision."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, **what: Any) -> Any:
        """Return the answer to a request."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("a process has ended; what it said is above")
        return json.loads(line)


@contextmanager
def workers(revision: str, sentences: Path) -> Iterator[tuple[Worker, Worker]]:
    """Start a process of another revision, and one of this tree."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        started = []
        for name, source in (
            ("then", check_out(revision, folder / "revision")),
            ("now", ROOT),
        ):
            tree = Tree(source, folder / name)
            process = stack.enter_context(tree.process(WORKER, sentences))
            started.append(Worker(process))
        yield started[0], started[1]


def measure(
    then: Worker, now: Worker, cases: list[Case], rounds: int
) -> list[dict[str, Any]]:
    """Return a row for each case: milliseconds of both, and how many times as fast."""
    rows = []
    for case in cases:
        runs = {"then": then, "float32 then": then, "now": now}
        asked = {
            "then": case,
            "float32 then": case._replace(precision="float32"),
            "now": case,
        }
        times: dict[str, list[float]] = {name: [] for name in runs}
        for number in range(-1, rounds):  # the first warms up
            for name, worker in runs.items():
                of_name = asked[name]._asdict() | {"times": TIMES[case.sentences]}
                found = worker.ask(**of_name)
                if number >= 0 and found is not None:
                    times[name].append(1000 * found)
        medians = {k: statistics.median(t) if t else None for k, t in times.items()}
        new, old = medians["now"], medians["float32 then"]
        rows.append(
            {
                "model": case.model,
                "precision": case.precision,
                "what": str(case),
                "threads": case.threads,
                "ms then": medians["then"],
                "ms now": new,
                "times float32 then": old / new if old and new else None,
            }
        )
    return rows


def all_cases(models: list[str], precisions: list[str]) -> list[Case]:
    """Return all cases on one thread."""
    return [
        Case(model, precision, n, warm)
        for model in models
        for precision in precisions
        for n in SENTENCES_AT_ONCE
        for warm in ((False, True) if n == 64 else (True,))
    ]


def run(
    revision: str = typer.Argument(..., help="Git revision to compare with"),
    text: Path | None = typer.Argument(None, help=TEXT),
    model: list[str] = typer.Option(MODELS, help="Names that ship, or published sizes"),
    precision: list[str] = typer.Option(PRECISIONS, help="float32, half"),
    rounds: int = typer.Option(7, min=1, help="Times that each is measured, in turn"),
    threads: bool = typer.Option(False, help="Compare two threads with one as well"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    """Compare the speed of reading with another revision's."""
    sentences = [s[:60] for s in read_sentences(text, 4 * TOKENS) if s][:64]
    tables: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sentences.json"
        path.write_text(json.dumps(sentences))
        with workers(revision, path) as (then, now):
            cases = all_cases(model, precision)
            tables[f"reading, {revision} and now"] = measure(then, now, cases, rounds)
            if threads:
                tables["two threads"] = [
                    _two_threads(now, Case(name, kind, n), rounds)
                    for name in model
                    for kind in precision
                    for n in (64, 1)
                ]
    show(tables, as_json)


def _two_threads(now: Worker, case: Case, rounds: int) -> dict[str, Any]:
    """Return how many times as fast two threads are as one, by the time that passes."""
    times: dict[int, list[float]] = {1: [], 2: []}
    for number in range(-1, rounds):
        for n, found in times.items():
            asked = case._replace(threads=n)._asdict() | {
                "times": TIMES[case.sentences]
            }
            seconds = now.ask(**asked, passing=True)
            if number >= 0:
                found.append(seconds)
    one, two = (1000 * statistics.median(found) for found in times.values())
    row = {"model": case.model, "precision": case.precision, "what": str(case)}
    return {**row, "ms, one": one, "ms, two": two, "times": one / two}


if __name__ == "__main__":
    typer.run(run)
