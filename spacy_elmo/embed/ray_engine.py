"""Workers on a Ray cluster (extra `ray`): an actor for each share of cores, or GPU.

All nodes share the folder. Only numbers are sent: those of jobs to the actors, and of
tokens back. If an actor dies, Ray is asked for another, which it starts as soon as a
node has room.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import Errors
from .plan import Plan
from .processes import Outcome, make_job, work_through


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
        address: As of `ray.init`; "auto" for the cluster of RAY_ADDRESS or of this
            machine, or else a new local one. An existing connection is used, and stays.
        n_workers: Number of actors; 1 for as many as there is room for.
        watch: As of `work_through`.

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
        share = {"CPU": plan.computing.threads}
        if plan.computing.device == "cuda":
            share["GPU"] = 1
        if n_workers == 1:
            total = ray.cluster_resources()
            n_workers = int(min(total.get(name, 0) // n for name, n in share.items()))
        resources = {"num_cpus": share["CPU"], "num_gpus": share.get("GPU", 0)}
        actor = ray.remote(**resources)(_Actor)
        start = partial(actor.remote, str(output.resolve()))
        n_workers = max(1, min(n_workers, len(jobs)))
        workers = [_RayWorker(ray, start) for _ in range(n_workers)]
        return work_through(jobs, workers, watch)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    finally:
        if started:
            ray.shutdown()
