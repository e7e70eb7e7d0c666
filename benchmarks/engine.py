"""How many times as fast as another revision sentences are read on this CPU.

    python -m benchmarks.engine REVISION [TEXT]

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
# What limits torch's libraries to AVX2.
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}
IMPORT = "import time; t = time.perf_counter(); import spacy_elmo; spacy_elmo.BiLM; "


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
def trees(revision: str, avx2: bool) -> Iterator[tuple[Tree, Tree]]:
    """Unpack another revision. Yield it, and this tree; both with AVX2 alone if so."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = check_out(revision, folder / "revision")
        then, now = Tree(source, folder / "then"), Tree(ROOT, folder / "now")
        if avx2:
            then.environment |= AVX2
            now.environment |= AVX2 | {"SPACY_ELMO_KERNELS": "instructions=avx2"}
        yield then, now


@contextmanager
def workers(pair: tuple[Tree, Tree], sentences: Path) -> Iterator[tuple[Worker, ...]]:
    """Start a process of each revision."""
    with ExitStack() as stack:
        processes = [stack.enter_context(t.process(WORKER, sentences)) for t in pair]
        yield tuple(map(Worker, processes))


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
    pipe: bool = typer.Option(False, help="Compare nlp.pipe, import, memory as well"),
    avx2: bool = typer.Option(False, help="Compute with AVX2 alone"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    """Compare the speed of reading with another revision's."""
    sentences = [s[:60] for s in read_sentences(text, 4 * TOKENS) if s][:64]
    tables: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sentences.json"
        path.write_text(json.dumps(sentences))
        with trees(revision, avx2) as pair:
            with workers(pair, path) as (then, now):
                cases = all_cases(model, precision)
                tables[f"reading, {revision} and now"] = measure(
                    then, now, cases, rounds
                )
                if threads:
                    tables["two threads"] = [
                        _two_threads(now, Case(name, kind, n), rounds)
                        for name in model
                        for kind in precision
                        for n in (64, 1)
                    ]
                if pipe:
                    tables["nlp.pipe, with a tagger and an ner, en_elmo_sm"] = [
                        _pipe(then, now, kind, rounds) for kind in precision
                    ]
            if pipe:
                tables["seconds of the first import"] = [_imports(pair, rounds)]
                tables["MB of a first batch of 64 beside the weights"] = [
                    _memory(pair, path, name, kind)
                    for name in model
                    for kind in precision
                ]
    show(tables, as_json)


def _pipe(then: Worker, now: Worker, precision: str, rounds: int) -> dict[str, Any]:
    """Return how many times as fast `nlp.pipe` is as it was in float32."""
    times: dict[str, list[float]] = {"then": [], "now": []}
    for number in range(-1, rounds):
        asked = {"question": "pipe", "threads": 1}
        found = {
            "then": then.ask(precision="float32", **asked),
            "now": now.ask(precision=precision, **asked),
        }
        for name, seconds in found.items() if number >= 0 else ():
            times[name].append(1000 * seconds)
    old, new = (statistics.median(times[name]) for name in ("then", "now"))
    return {
        "precision": precision,
        "ms float32 then": old,
        "ms now": new,
        "times float32 then": old / new,
    }


def _imports(pair: tuple[Tree, Tree], rounds: int) -> dict[str, Any]:
    """Return the seconds of an import, in a process of its own each time."""
    times: dict[str, list[float]] = {"then": [], "now": []}
    for number in range(-1, rounds):
        for name, tree in zip(times, pair):
            seconds = float(tree.run("-c", f"{IMPORT}print(time.perf_counter() - t)"))
            if number >= 0:
                times[name].append(seconds)
    return {name: statistics.median(found) for name, found in times.items()}


def _memory(
    pair: tuple[Tree, Tree], sentences: Path, model: str, precision: str
) -> dict[str, Any]:
    """Return the growth of a new process's memory, in MB."""
    with workers(pair, sentences) as both:
        asked = {"question": "memory", "model": model, "precision": precision}
        found = [worker.ask(**asked) for worker in both]
    sizes = [None if n is None else n / 1e6 for n in found]
    return {"model": model, "precision": precision, "then": sizes[0], "now": sizes[1]}


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
