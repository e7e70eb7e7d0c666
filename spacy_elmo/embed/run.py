"""Making the shards of a plan, in this process or in several."""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..errors import Errors
from .estimate import refuse_without_room
from .folder import Workspace, remove_leftovers
from .model import Encoder
from .plan import Plan, read_plan
from .planning import make_encoder
from .processes import run_in_processes
from .progress import Progress
from .shards import Worker


@dataclass(frozen=True)
class Outcome:
    """What a run has done.

    Attributes:
        tokens: Tokens that were embedded.
        aside: Jobs that were set aside because they ended their workers three times.
    """

    tokens: int = 0
    aside: list[int] = field(default_factory=list)


class Terminated(KeyboardInterrupt):
    """SIGTERM, as schedulers send it."""


def run(
    output: Path,
    *,
    encoder: Encoder | None = None,
    processes: int = 1,
    share: tuple[int, int] = (1, 1),
    gpu_id: int = 0,
    progress: bool = False,
) -> Outcome:
    """Make the shards of a folder's plan that are not there.

    Whenever it is interrupted, it leaves only whole shards, and the next run makes the
    others.

    Args:
        output: The folder.
        encoder: Of the plan, if there is one already.
        processes: Processes at most.
        share: (3, 64) for the third of 64 parts of the work.
        gpu_id: As of `Encoder`.
        progress: Whether to show a bar.

    Raises:
        ValueError: [EL207] for a share that is not possible; as `Worker.make`.
        OSError: [EL203] if there is not enough room; as `Worker.make`.
    """
    plan = read_plan(output)
    part, parts = share
    if not 1 <= part <= parts:
        found, known = f"{part}/{parts}", "1/64 to 64/64, for instance"
        raise ValueError(Errors.EL207.format(name="shards", found=found, known=known))
    remove_leftovers(output)
    jobs = plan.jobs_left(output, share)
    refuse_without_room(plan, output, len(jobs) / max(1, plan.n_jobs))
    bar = Progress(plan, output, show=progress)
    try:
        with _terminable():
            if processes > 1:
                return Outcome(
                    *run_in_processes(output, jobs, processes, gpu_id, bar.show)
                )
            encoder = encoder or make_encoder(plan, output, gpu_id=gpu_id)
            return Outcome(_run_here(plan, output, jobs, encoder, bar))
    finally:
        bar.close()
        remove_leftovers(output)


def _run_here(
    plan: Plan, output: Path, jobs: Sequence[int], encoder: Encoder, bar: Progress
) -> int:
    before = torch.get_num_threads()
    torch.set_num_threads(plan.computing.threads)
    try:
        with Workspace(output) as workspace:
            worker = Worker(plan, output, encoder, workspace, bar.show)
            return sum(worker.make(job) for job in jobs)
    finally:
        torch.set_num_threads(before)


@contextmanager
def _terminable() -> Iterator[None]:
    """Raise Terminated where SIGTERM would end the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
