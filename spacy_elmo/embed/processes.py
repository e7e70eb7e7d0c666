"""Workers on this machine, each in a process of its own."""

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

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
    """
    workers = [_Process(output, gpu_id) for _ in range(min(n_processes, len(jobs)))]
    waiting, attempts = list(reversed(jobs)), dict.fromkeys(jobs, 0)
    tokens = 0
    aside: list[int] = []
    try:
        while True:
            for worker in workers:
                if worker.job is None and waiting:
                    worker.begin(waiting.pop())
            busy = [worker for worker in workers if worker.job is not None]
            if not busy:
                return tokens, aside
            wait([worker.connection for worker in busy], WAIT)
            watch()
            for worker in busy:
                job, found = worker.job, worker.result()
                if isinstance(found, BaseException):
                    raise found
                if found is not None:
                    tokens += found
                elif not worker.is_alive and job is not None:
                    attempts[job] += 1
                    (aside if attempts[job] == ATTEMPTS else waiting).append(job)
                    workers[workers.index(worker)] = _Process(output, gpu_id)
    finally:
        for worker in workers:
            worker.end()


class _Process:
    """A worker, and the job that it does, None for none."""

    def __init__(self, output: Path, gpu_id: int) -> None:
        # Not a copy of this process, which would copy torch's threads, locked.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.job: int | None = None
        self._process: BaseProcess = context.Process(
            target=_serve, args=(theirs, output, gpu_id), daemon=True
        )
        self._process.start()
        theirs.close()

    def begin(self, job: int) -> None:
        self.job = job
        with suppress(OSError):  # it is gone: `is_alive` says so
            self.connection.send(job)

    def result(self) -> Any:
        """Return the number of tokens of the job, an error, or None for neither."""
        try:
            found = self.connection.recv() if self.connection.poll() else None
        except (EOFError, OSError):
            self._process.join()
            return None
        if found is not None:
            self.job = None
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
            while True:
                connection.send(worker.make(connection.recv()))
    except (EOFError, BrokenPipeError):
        pass  # whoever started it has ended
    except Exception as error:  # noqa: BLE001  (it is raised where the run was started)
        connection.send(error)
