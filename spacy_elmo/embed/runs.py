"""Making the shards of a plan: in this process, in several, or on a Ray cluster.

Other processes may die at any moment. Only numbers are sent to them and back: those of
jobs, and of tokens. On a Ray cluster (extra `ray`) all nodes share the folder. An actor
has some cores, or a GPU; if it dies, Ray is asked for another, which it starts as soon
as a node has room.
"""

import multiprocessing
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import torch

from ..errors import Errors
from ..files import named_path
from ..machine import thread_count
from ..processes import StopSignals, end_with_parent
from .folder import Workspace, remove_leftovers
from .model import Encoder, check_setting
from .plan import STORED, Plan, read_plan
from .planning import refuse_without_room
from .progress import Progress
from .worker import Worker

ATTEMPTS = 3  # to do a job that ends its worker, or to start a worker
WAIT = 0.5  # seconds between two looks at the workers


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Attributes:
        tokens: Tokens that were embedded.
        aside: Jobs that were given up, because they ended their workers three times.
    """

    tokens: int = 0
    aside: list[int] = field(default_factory=list)


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
    check_setting("processes", processes, range(1, 1 << 16))
    part, parts = share
    if not 1 <= part <= parts:
        found, known = f"{part}/{parts}", "1/64 to 64/64, for instance"
        raise Errors.EL207(name="share", found=found, known=known)
    remove_leftovers(output)
    jobs = plan.jobs_left(output, share)
    if jobs:
        check_setting("format", plan.sink, (STORED,))  # version 0.2 stored others
    refuse_without_room(plan, output, jobs)
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
            encoder = encoder or plan.encoder(output, gpu_id=gpu_id)
            with thread_count(plan.computing.threads), Workspace(output) as workspace:
                worker = Worker(plan, output, encoder, workspace, watch)
                return Outcome(sum(map(worker.make, jobs)))
    finally:
        bar.close()
        remove_leftovers(output)


class RemoteWorker(Protocol):
    """A worker somewhere else, which is started again after it has died.

    Attributes:
        died: The exception that a job gets when it ends the worker.
    """

    died: type[Exception]

    def make(self, job: int | None) -> "Future[int]":
        """Begin a job; with None only load the model. The result is the number of
        tokens, or the exception `died`."""

    def end(self) -> None:
        """End the worker, whatever it is doing."""


def work_through(
    jobs: Sequence[int], workers: Sequence[RemoteWorker], watch: Callable[[], object]
) -> Outcome:
    """Give jobs to workers until all are done.

    Args:
        jobs: Numbers of the jobs.
        workers: The workers.
        watch: A function that is called every half second.

    Raises:
        OSError: [EL212] No worker can start.
        Exception: As a worker raises.
    """
    waiting, deaths = deque(jobs), Counter[int | None]()
    running: dict[Future[int], tuple[RemoteWorker, int | None]] = {}
    tokens, aside, idle = 0, list[int](), list[RemoteWorker]()
    try:
        for worker in workers:
            running[worker.make(None)] = worker, None
        while waiting or any(job is not None for _, job in running.values()):
            done, _ = wait(running, WAIT, FIRST_COMPLETED)
            watch()
            for future in done:
                worker, job = running.pop(future)
                try:
                    tokens += future.result()
                    deaths[None] = 0
                    idle.append(worker)
                except worker.died as error:
                    deaths[job] += 1
                    if job is None and deaths[job] == ATTEMPTS:
                        n = len(workers)
                        raise Errors.EL212(processes=n) from error
                    if job is not None:
                        failed = deaths[job] == ATTEMPTS
                        (aside if failed else waiting).append(job)
                    running[worker.make(None)] = worker, None
            while waiting and idle:
                worker, following = idle.pop(), waiting.popleft()
                running[worker.make(following)] = worker, following
        return Outcome(tokens, aside)
    finally:
        for worker in workers:
            worker.end()


class ProcessWorker:
    """A worker in a process on this machine. It has a pool of its own, so that it is
    known which job ended it."""

    died: type[Exception] = BrokenProcessPool

    def __init__(self, output: Path, gpu_id: int) -> None:
        self._make = partial(make_job, output, gpu_id)
        self._start()

    def _start(self) -> None:
        # By spawn: a forked copy of this process would copy the locks of torch's
        # threads.
        context = multiprocessing.get_context("spawn")
        theirs, self._connection = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(1, context, end_with_parent, (theirs,))

    def make(self, job: int | None) -> "Future[int]":
        """Begin a job, in a new process if there is none."""
        try:
            return self._pool.submit(self._make, job)
        except BrokenProcessPool:
            self.end()
            self._start()
            return self._pool.submit(self._make, job)

    def end(self) -> None:
        """End the process at once. Only the shard that it is making is lost."""
        self._connection.close()
        self._pool.shutdown()


def make_job(output: Path, gpu_id: int, job: int | None) -> int:
    """Do a job in this process. The first call loads the model."""
    worker = _worker(output, gpu_id)
    return 0 if job is None else worker.make(job)


@cache
def _worker(output: Path, gpu_id: int) -> Worker:
    plan = read_plan(output)
    torch.set_num_threads(plan.computing.threads)
    encoder = plan.encoder(output, gpu_id=gpu_id)
    return Worker(plan, output, encoder, Workspace(output))


# -- Ray ---------------------------------------------------------------------------


class _Actor:
    def __init__(self, output: str) -> None:
        self._output = Path(output)

    def make(self, job: int | None) -> int:
        return make_job(self._output, 0, job)  # Ray shows an actor only its own GPU


class _RayWorker:
    def __init__(self, ray: Any, start: Callable[[], Any]) -> None:
        self.died = ray.exceptions.RayActorError
        self._start, self._kill = start, ray.kill
        self._actor: Any = None

    def make(self, job: int | None) -> "Future[int]":
        if job is None:
            self.end()
            self._actor = self._start()
        future: Future[int] = self._actor.make.remote(job).future()
        return future

    def end(self) -> None:
        if self._actor is not None:
            self._kill(self._actor)


def run_on_ray(
    plan: Plan,
    output: Path,
    jobs: Sequence[int],
    address: str,
    n_workers: int,
    watch: Callable[[], object],
) -> Outcome:
    """Do jobs of a folder's plan, which all nodes share. Raises as `work_through`.

    Args:
        plan: The plan.
        output: The folder.
        jobs: Numbers of the jobs.
        address: As `ray.init` takes it. "auto" is the cluster of RAY_ADDRESS or of this
            machine, or else a new local one. An existing connection is used, and stays.
        n_workers: Number of actors; 1 for as many as there is room for.
        watch: A function that is called every half second.

    Raises:
        ImportError: [EL211] if Ray is missing.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise Errors.EL211(name="Ray", extra="ray", error=error) from error
    started = not ray.is_initialized()
    if started:
        found = None if address == "auto" else address  # Ray's "auto" starts none
        ray.init(found, include_dashboard=False, log_to_driver=False)
    try:
        n_cpus, n_gpus = plan.computing.threads, int(plan.computing.device == "cuda")
        if n_workers == 1:
            total = ray.cluster_resources()
            rooms = [total.get("CPU", 0) // n_cpus, *[total.get("GPU", 0)] * n_gpus]
            n_workers = int(min(rooms))
        actor = ray.remote(num_cpus=n_cpus, num_gpus=n_gpus)(_Actor)
        start = partial(actor.remote, str(output.resolve()))
        n_workers = max(1, min(n_workers, len(jobs)))
        workers = [_RayWorker(ray, start) for _ in range(n_workers)]
        return work_through(jobs, workers, watch)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    finally:
        if started:
            ray.shutdown()
