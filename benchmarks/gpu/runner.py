"""Runs steps one after the other in another process, which a step may bring down.

A failed kernel can make CUDA unusable for the rest of a process, and a step may never
end. So the steps run in a child, which writes a line of JSON when a step begins and
when it ends; where it dies, or takes too long, the next child begins with the step
after.
"""

import contextlib
import importlib
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .page import write_page

Rows = list[dict[str, Any]]
Tables = dict[str, Rows]
POLL = 0.1  # seconds
GRACE = 5.0  # that a step may take longer than it should


@dataclass(frozen=True)
class Stage:
    """A stage's name and settings. seconds: of all its steps."""

    name: str
    device: str
    output: Path
    tiny: bool
    seconds: float

    @property
    def json(self) -> Path:
        """The file of all results."""
        return self.output / f"{self.name}.json"


class Step(NamedTuple):
    """A step: what it runs, and seconds that it may take at most."""

    run: Callable[["Context"], Tables]
    seconds: float

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.run.__name__


@dataclass(frozen=True)
class Context:
    """What a step is given: its settings, when it should have ended, tables to put its
    rows into, and what writes them down before it has ended."""

    device: str
    tiny: bool
    ends: float
    tables: Tables = field(default_factory=dict)
    write: Callable[[Tables], None] = lambda tables: None

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.ends - time.monotonic()

    def while_time(self, items: Sequence[Any], share: float = 0.25) -> Iterator[Any]:
        """Yield items until less than a share of the time is left. What is in the
        tables after each is kept if the step is killed later."""
        enough = share * self.left()
        for item in items:
            if self.left() > enough:
                yield item
                self.write(self.tables)


def steps_of(name: str) -> list[Step]:
    """Return the steps of a stage."""
    found: list[Step] = importlib.import_module(f"benchmarks.gpu.{name}").STEPS
    return found


# -- the parent -------------------------------------------------------------------


def run_stage(
    stage: Stage, root: Path, site: Path, only: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Run the steps of a stage, or those of some names, and return what became of each.
    Its files are written after every step.

    Args:
        stage: What to run.
        root: Folder of the repository.
        site: Folder of more packages, which come before those that are installed.
        only: Names of steps, all if there are none.
    """
    log = stage.output / f"{stage.name}.jsonl"
    log.write_text("")
    paths = [str(site), str(root), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    ends = time.monotonic() + stage.seconds
    results: list[dict[str, Any]] = []
    first = 0
    while first is not None and time.monotonic() < ends:
        command = [sys.executable, "-m", __name__, json.dumps(_plain(stage)), str(log)]
        command += [str(first), str(ends - time.monotonic()), *only]
        with (stage.output / f"{stage.name}.log").open("a") as said:
            child = subprocess.Popen(
                command, cwd=root, env=environment, stdout=said, stderr=said
            )
            first = _watch(child, log, stage, results, ends)
    return results


def _plain(stage: Stage) -> dict[str, Any]:
    return {**asdict(stage), "output": str(stage.output)}


def _watch(
    child: subprocess.Popen[bytes],
    log: Path,
    stage: Stage,
    results: list[dict[str, Any]],
    ends: float,
) -> int | None:
    """Collect the results of a child until it is gone, or has to be killed. Return the
    number of the step to begin with again, None if there is none."""
    begun: dict[str, Any] | None = None
    at, before = log.stat().st_size, len(results)
    while True:
        has_ended = child.poll() is not None
        with log.open() as lines:
            lines.seek(at)
            for line in iter(lines.readline, ""):
                if not line.endswith("\n"):
                    break
                at = lines.tell()
                message = json.loads(line)
                if "so far" in message and begun is not None:
                    begun["tables"] = message["so far"]
                elif "begins" in message:
                    begun = {**message, "at": time.monotonic()}
                else:
                    begun = None
                    results.append(message)
                    _write(stage, results)
        now = time.monotonic()
        late = begun is not None and now > begun["at"] + begun["seconds"]
        if has_ended and begun is None and child.returncode == 0:
            return None
        if has_ended and begun is None and len(results) > before:
            return _next(results)
        if has_ended or late or now > ends:
            child.kill()
            child.wait()
            why = f"died with exit code {child.returncode}" if has_ended else "too long"
            number = begun["number"] if begun else -1
            name = begun["begins"] if begun else "start"
            error = f"{why}; see {stage.name}.log"
            tables = begun.get("tables", {}) if begun else {}
            results.append(
                {"step": name, "number": number, "error": error, "tables": tables}
            )
            _write(stage, results)
            return None if now > ends or begun is None else _next(results)
        time.sleep(POLL)


def _next(results: list[dict[str, Any]]) -> int | None:
    return int(results[-1]["number"]) + 1 if results else None


def _write(stage: Stage, results: list[dict[str, Any]]) -> None:
    stage.json.write_text(json.dumps(results, indent=1))
    write_page(stage.json.with_suffix(".md"), stage.name, results)


# -- the child --------------------------------------------------------------------


def run_steps(
    stage: Stage, log: Path, first: int, seconds: float, only: Sequence[str]
) -> int:
    """Run the steps of a stage from a first one on. Return 1 if CUDA can't be used any
    more, else 0."""
    from ..speed import machine

    ends = time.monotonic() + seconds
    for number, step in enumerate(steps_of(stage.name)):
        if number < first or (only and step.name not in only):
            continue
        # A tiny stage is to show that all steps run, on a CPU that others use too.
        seconds = 10 * step.seconds if stage.tiny else step.seconds
        limit = min(seconds, ends - time.monotonic())
        _say(log, {"begins": step.name, "number": number, "seconds": limit + GRACE})
        result: dict[str, Any] = {"step": step.name, "number": number}
        started = time.monotonic()
        try:
            context = Context(
                stage.device,
                stage.tiny,
                started + limit,
                write=lambda tables: _say(log, {"so far": tables}),
            )
            result["tables"] = step.run(context)
        except Exception:  # noqa: BLE001 (the next step is to run whatever it was)
            result["error"] = traceback.format_exc()
        result["seconds"] = round(time.monotonic() - started, 1)
        broken = "error" in result and not _cuda_works(stage.device)
        result["machine"] = "" if broken else machine()
        _say(log, result)
        if broken:
            return 1
    return 0


def _say(log: Path, message: dict[str, Any]) -> None:
    with log.open("a") as lines:
        lines.write(json.dumps(message, default=str) + "\n")


def _cuda_works(device: str) -> bool:
    import torch

    if device == "cpu":
        return True
    with contextlib.suppress(RuntimeError):
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return True
    return False


if __name__ == "__main__":
    fields = json.loads(sys.argv[1])
    the_stage = Stage(**{**fields, "output": Path(fields["output"])})
    the_log, the_first, the_seconds = sys.argv[2:5]
    sys.exit(
        run_steps(
            the_stage, Path(the_log), int(the_first), float(the_seconds), sys.argv[5:]
        )
    )
