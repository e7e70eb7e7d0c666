"""Coverage-guided fuzzing of every reader: libFuzzer by way of atheris, whose mutations
are joined with those that know the formats; where atheris is not installed, Hypothesis'
targeted search for inputs that reach more lines.

Each file of each target is fuzzed in a process of its own, which `python -m
attacks.guided TARGET FILE FOLDER SECONDS SEED` starts.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .report import Run

# Whose lines count as reached.
WATCHED = ["spacy_elmo"]
MAX_BYTES = 1 << 16
LEAST = 5  # seconds for each file
GRACE = 120  # seconds for a process to start and to end


def attack(run: "Run") -> None:
    """Fuzz the files in turn, each for its share of the time that is left."""
    from .files import memory_disk
    from .targets import TARGETS, make

    run.notes["engine"] = "atheris" if find_spec("atheris") else "Hypothesis"
    with tempfile.TemporaryDirectory(dir=memory_disk()) as folder:
        jobs = []
        for name in TARGETS:
            place = Path(folder) / name
            target = make(name, place)
            jobs += [(name, path.relative_to(place)) for path in target.attacked(place)]
        run.random().shuffle(jobs)
        for number, (name, path) in enumerate(jobs):
            seconds = max(LEAST, int(run.seconds_left / (len(jobs) - number)))
            if run.seconds_left < LEAST:
                break
            _fuzz_in_a_process(run, name, path, Path(folder), seconds)


def _fuzz_in_a_process(
    run: "Run", name: str, path: Path, folder: Path, seconds: int
) -> None:
    output = run.output / "found" / name
    output.mkdir(parents=True, exist_ok=True)
    work, told = folder / "work", folder / "told.json"
    told.unlink(missing_ok=True)
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(folder / name, work / name)
    arguments = [name, path, work, seconds, run.seed, told, output.resolve()]
    command = [sys.executable, "-m", __spec__.name, *map(str, arguments)]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=seconds + GRACE, check=False
        )
        code, said = done.returncode, done.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired:
        code, said = -1, "it did not end"
    counts = json.loads(told.read_text()) if told.exists() else {"findings": []}
    run.counts["files fuzzed"] += 1
    run.counts["inputs"] += counts.get("inputs", 0)
    run.counts["seconds"] += round(counts.get("seconds", 0))
    for finding in counts["findings"]:
        run.finding(f"{name}/{path}: {finding}")
    if code != 0:
        run.finding(f"{name}/{path}: exit {code}: {said[-300:]}")


# -- in the process of a file -----------------------------------------------------


class Fuzzer:
    """Reads a target with other contents for one of its files."""

    def __init__(self, arguments: list[str]) -> None:
        from .files import judge
        from .targets import TARGETS

        name, path, folder, seconds, seed, told, output = arguments
        self.name, self.seconds, self.seed = name, int(seconds), int(seed)
        self.folder, self.path = Path(folder) / name, Path(folder) / name / path
        self.told, self.output, self._judge = Path(told), Path(output), judge
        self.whole = self.path.read_bytes()
        self.right = TARGETS[name].read(self.folder)
        self.findings: dict[str, str] = {}
        self.inputs, self.started = 0, time.monotonic()

    def read(self, data: bytes) -> None:
        """Read one content, and note what should not have come of it."""
        from .files import ALLOWED

        self.path.write_bytes(data)
        outcome = self._judge(self.name, self.folder, self.right)
        self.inputs += 1
        if outcome["outcome"] not in ALLOWED:
            key = outcome["outcome"] + outcome.get("where", "")
            if key not in self.findings:
                self.findings[key] = str(outcome)
                kept = self.output / f"{self.path.name}.{len(self.findings)}"
                kept.write_bytes(data)
                self.tell()
        if self.inputs % 20 == 0:
            self.tell()

    def tell(self) -> None:
        """Write down how far this is: a process may end at any moment."""
        told = {
            "inputs": self.inputs,
            "seconds": time.monotonic() - self.started,
            "findings": list(self.findings.values()),
        }
        aside = self.told.with_suffix(".new")
        aside.write_text(json.dumps(told))
        aside.replace(self.told)

    def mutate(self, data: bytes, seed: int) -> bytes:
        """Change a content in one way that knows its format."""
        from .mutations import BYTES, STRUCTURE

        rng = random.Random(seed)
        change = rng.choice(BYTES + 4 * STRUCTURE.get(self.path.suffix, []))
        try:
            return change(data, rng)[:MAX_BYTES] if data else self.whole
        except Exception:  # noqa: BLE001 (it is not of that format any more)
            return self.whole


def by_atheris(fuzzer: Fuzzer) -> None:
    """Fuzz until the time is up; libFuzzer then ends the process."""
    import atheris

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        if seed % 2:
            return bytes(atheris.Mutate(data, max_size))
        return fuzzer.mutate(data, seed)[:max_size]

    with tempfile.TemporaryDirectory() as corpus:
        (Path(corpus) / "whole").write_bytes(fuzzer.whole)
        options = [
            f"-max_total_time={fuzzer.seconds}", f"-seed={fuzzer.seed + 1}",
            f"-max_len={max(MAX_BYTES, len(fuzzer.whole))}", "-timeout=20",
            "-rss_limit_mb=4000", f"-artifact_prefix={fuzzer.output}/", "-verbosity=0",
        ]  # fmt: skip
        atheris.Setup(
            [sys.argv[0], *options, corpus], fuzzer.read, custom_mutator=mutate
        )
        atheris.Fuzz()


def by_hypothesis(fuzzer: Fuzzer) -> None:
    """Search for contents that make the readers run more lines."""
    import hypothesis
    from hypothesis import strategies as st

    reached: set[tuple[str, int]] = set()

    def watch(frame: Any, event: str, argument: object) -> Any:
        if not any(each in frame.f_code.co_filename for each in WATCHED):
            return None
        reached.add((frame.f_code.co_filename, frame.f_lineno))
        return watch

    @hypothesis.settings(max_examples=500, deadline=None, database=None)
    @hypothesis.given(st.lists(st.integers(0, 1 << 32), min_size=1, max_size=4))
    def search(seeds: list[int]) -> None:
        if time.monotonic() - fuzzer.started > fuzzer.seconds:
            return
        data = fuzzer.whole
        for seed in seeds:
            data = fuzzer.mutate(data, seed)
        reached.clear()
        sys.settrace(watch)
        try:
            fuzzer.read(data)
        finally:
            sys.settrace(None)
        hypothesis.target(float(len(reached)))

    number = fuzzer.seed
    while time.monotonic() - fuzzer.started < fuzzer.seconds:
        hypothesis.seed(number)(search)()
        number += 1
    fuzzer.tell()


def main(arguments: list[str]) -> None:
    """Fuzz one file, in this process."""
    os.environ["OMP_NUM_THREADS"] = "1"
    if find_spec("atheris") is None:
        by_hypothesis(Fuzzer(arguments))
        return
    import atheris
    import h5py  # noqa: F401  (before modules are watched, which takes a while each)
    import spacy  # noqa: F401
    import torch  # noqa: F401

    with atheris.instrument_imports(include=WATCHED):
        fuzzer = Fuzzer(arguments)
    by_atheris(fuzzer)


if __name__ == "__main__":
    main(sys.argv[1:])
