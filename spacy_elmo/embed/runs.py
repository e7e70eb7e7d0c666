"""Making the shards of a plan: in this process, in several, or on a Ray cluster."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from ..errors import Errors
from ..files import named_path
from ..processes import StopSignals, Terminated
from .estimate import refuse_without_room
from .folder import Workspace, bytes_of_jobs, remove_leftovers
from .keep import choose
from .model import Encoder
from .plan import STORED, Plan, read_plan
from .planning import make_encoder
from .processes import Outcome, ProcessWorker, work_through
from .progress import Progress
from .ray_engine import run_on_ray
from .worker import Worker

__all__ = ["Terminated", "run"]


def run(
    output: str | Path,
    *,
    encoder: Encoder | None = None,
    processes: int = 1,
    share: tuple[int, int] = (1, 1),
    gpu_id: int = 0,
    ray: str | None = None,
    progress: bool = False,
) -> Outcome:
    """Write the missing shards of a plan.

    An interrupted run leaves only whole shards, and the next run writes the others. In
    the main thread, a first Ctrl-C or SIGTERM stops the run after the current block of
    sentences.

    Args:
        output: The folder of the plan.
        encoder: The encoder of the plan; None to make it.
        processes: Largest number of processes. With Ray it is the number of actors, and
            1 means as many as there is room for. A script that starts several needs `if
            __name__ == "__main__":`, since each process imports the script.
        share: The share of the work, such as (3, 64) for the third of 64 equal ones.
        gpu_id: Number of the GPU, if the device is "cuda".
        ray: "auto", "local" or the address of a Ray cluster; None for no Ray.
        progress: Whether to show a progress bar.

    Raises:
        ValueError: [EL207] The share or the number of processes is not allowed. Also as
            `Worker.make`.
        OSError: [EL203] The disk has too little room. [EL212] No process can start.
            Also as `Worker.make`.
        ImportError: [EL211] Ray is missing.
        KeyboardInterrupt: Ctrl-C was pressed. Its subclass Terminated: SIGTERM came.
    """
    output = named_path(output).absolute()
    plan = read_plan(output)
    choose("processes", processes, range(1, 1 << 16))
    part, parts = share
    if not 1 <= part <= parts:
        found, known = f"{part}/{parts}", "1/64 to 64/64, for instance"
        raise Errors.EL207(name="shards", found=found, known=known)
    remove_leftovers(output)
    jobs = plan.jobs_left(output, share)
    if jobs:
        choose("format", plan.sink, (STORED,))  # version 0.2 stored others
    there = bytes_of_jobs(output, jobs)
    refuse_without_room(plan, output, len(jobs) / max(1, plan.n_jobs), there)
    bar = Progress(plan, output, show=progress)
    try:
        with StopSignals() as stop:

            def watch() -> None:
                bar.show()
                stop.check()

            if ray is not None:
                return run_on_ray(plan, output, jobs, ray, processes, watch)
            if processes > 1:
                n_workers = min(processes, len(jobs))
                workers = [ProcessWorker(output, gpu_id) for _ in range(n_workers)]
                return work_through(jobs, workers, watch)
            encoder = encoder or make_encoder(plan, output, gpu_id=gpu_id)
            return _run_here(plan, output, jobs, encoder, watch)
    finally:
        bar.close()
        remove_leftovers(output)


def _run_here(
    plan: Plan,
    output: Path,
    jobs: Sequence[int],
    encoder: Encoder,
    watch: Callable[[], object],
) -> Outcome:
    before = torch.get_num_threads()
    torch.set_num_threads(plan.computing.threads)
    try:
        with Workspace(output) as workspace:
            worker = Worker(plan, output, encoder, workspace, watch)
            return Outcome(sum(worker.make(job) for job in jobs))
    finally:
        torch.set_num_threads(before)
