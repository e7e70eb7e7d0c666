"""Workers in processes of their own, which may die at any moment."""

import multiprocessing
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol

import torch

from ..errors import Errors
from ..processes import end_with_parent
from .folder import Workspace
from .plan import read_plan
from .planning import make_encoder
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
        self._output, self._gpu_id = output, gpu_id
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
            return self._pool.submit(make_job, self._output, self._gpu_id, job)
        except BrokenProcessPool:
            self.end()
            self._start()
            return self._pool.submit(make_job, self._output, self._gpu_id, job)

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
    encoder = make_encoder(plan, output, gpu_id=gpu_id)
    return Worker(plan, output, encoder, Workspace(output))
