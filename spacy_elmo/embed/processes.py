"""Workers on this machine, each in a process of its own."""

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from ..errors import Errors
from .folder import Workspace
from .plan import read_plan
from .planning import make_encoder
from .shards import Worker

ATTEMPTS = 3  # of a job that ends its worker
WAIT = 0.5  # seconds


def run_in_processes(
    output: Path,
    jobs: Sequence[int],
    n_processes: int,
    gpu_id: int = 0,
    watch: Callable[[], object] = lambda: None,
) -> tuple[int, list[int]]:
    """Do jobs of a folder's plan. What a worker raises is raised here.

    Args:
        output: The folder.
        jobs: Numbers of the jobs.
        n_processes: Processes at most.
        gpu_id: As of `Encoder`.
        watch: Called at least every half second.

    Returns:
        The number of tokens, and the jobs that were set aside because they ended their
        workers three times.

    Raises:
        OSError: [EL212] if no worker can start.
    """
    pool = _Pool(output, jobs, n_processes, gpu_id)
    try:
        while pool.give_jobs():
            pool.wait()
            watch()
        return pool.tokens, pool.aside
    finally:
        pool.end()


class _Pool:
    def __init__(
        self, output: Path, jobs: Sequence[int], n_processes: int, gpu_id: int
    ) -> None:
        self.tokens = 0
        self.aside: list[int] = []
        self._start = partial(_Process, output, gpu_id)
        self._workers = [self._start() for _ in range(min(n_processes, len(jobs)))]
        self._waiting = list(reversed(jobs))
        self._attempts = dict.fromkeys(jobs, 0)
        self._failed_starts = 0

    def give_jobs(self) -> bool:
        """Give jobs to idle workers. Return whether there is anything to wait for."""
        for worker in self._workers:
            if worker.is_ready and worker.job is None and self._waiting:
                worker.begin(self._waiting.pop())
        busy = any(worker.job is not None for worker in self._workers)
        return busy or bool(self._waiting)

    def wait(self) -> None:
        """Wait for a while, and take in what has happened."""
        wait([worker.connection for worker in self._workers], WAIT)
        for number, worker in enumerate(self._workers):
            job, found = worker.job, worker.receive()
            if isinstance(found, BaseException):
                raise found
            if found is not None:
                self.tokens, self._failed_starts = self.tokens + found, 0
            elif not worker.is_alive:
                self._note_death(worker, job)
                self._workers[number] = self._start()

    def _note_death(self, worker: "_Process", job: int | None) -> None:
        if job is not None:
            self._attempts[job] += 1
            failed = self._attempts[job] == ATTEMPTS
            (self.aside if failed else self._waiting).append(job)
        elif not worker.is_ready:
            self._failed_starts += 1
            if self._failed_starts == ATTEMPTS:
                n_processes = len(self._workers)
                raise OSError(Errors.EL212.format(processes=n_processes))

    def end(self) -> None:
        for worker in self._workers:
            worker.end()


class _Process:
    """A worker, whether it has loaded the model, and the job that it does, if any."""

    def __init__(self, output: Path, gpu_id: int) -> None:
        # Not a copy of this process, which would copy torch's threads, locked.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.is_ready = False
        self.job: int | None = None
        self._process: BaseProcess = context.Process(
            target=_serve, args=(theirs, output, gpu_id), daemon=True
        )
        self._process.start()
        theirs.close()

    def begin(self, job: int) -> None:
        """Give it a job."""
        self.job = job
        with suppress(OSError):  # it is gone: `is_alive` says so
            self.connection.send(job)

    def receive(self) -> Any:
        """Return the number of tokens of a job that is done, an error, or None."""
        try:
            found = self.connection.recv() if self.connection.poll() else None
        except (EOFError, OSError):
            self._process.join()
            return None
        if found is not None:
            self.is_ready, self.job = True, None
        return found

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def end(self) -> None:
        self._process.terminate()
        self._process.join()
        self.connection.close()


def _serve(connection: Connection, output: Path, gpu_id: int) -> None:
    """Do jobs until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for who started this process
    try:
        plan = read_plan(output)
        torch.set_num_threads(plan.computing.threads)
        encoder = make_encoder(plan, output, gpu_id=gpu_id)
        with Workspace(output) as workspace:
            worker = Worker(plan, output, encoder, workspace)
            connection.send(0)  # it is ready
            while True:
                connection.send(worker.make(connection.recv()))
    except (EOFError, BrokenPipeError):
        pass  # whoever started it has ended
    except Exception as error:  # noqa: BLE001  (it is raised where the run was started)
        connection.send(error)
