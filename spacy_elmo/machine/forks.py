"""Computing in a process that was forked from a process that had computed.

Only the thread that forks lives on in the child process. Three things are lost:

- the threads of its OpenMP team. GNU's OpenMP, which PyTorch for Linux brings, would
  wait for them for ever. So the team is ended before a fork, and the child computes
  with one thread until the user sets another number;
- the work of other threads. Locks that they held stay held, also those of oneDNN inside
  torch. So a fork waits until other threads have finished a batch;
- the owners of our own locks (`ProcessLock`).

Python calls registered functions in forks of its own, but not in those of uWSGI, for
instance. A process that was forked in another way may lack its team, so `prepare` keeps
it at one thread in any case.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Condition, Lock, get_ident

import torch

from .settings import torch_library

PATIENCE = 10.0  # most seconds that a fork waits for a batch
OMP_PAUSE_HARD = 2  # OpenMP 5.0, section 3.2.44: end all threads
PF_FORKNOEXEC = 0x40  # Linux, include/linux/sched.h: forked, without exec since


class _Process:
    """The threads of a process.

    Attributes:
        may_lack_team: Whether OpenMP may wait for threads that do not exist.
        changed: A condition that guards the other attributes.
        computing: Number of blocks of `safe_from_forks` that each thread is in.
        forking: Number of threads that wait to fork.
    """

    def __init__(self, *, may_lack_team: bool) -> None:
        self.may_lack_team = may_lack_team
        self.changed, self.computing = Condition(), Counter[int]()
        self.forking = 0


_processes: dict[int, _Process] = {}  # by process id: a forked process inherits others
_team_is_ended = False  # whether the forking thread has ended its team


def prepare() -> _Process:
    """Prepare this process for forks, before it computes. If it was forked itself and
    may lack its OpenMP team, limit it to one thread."""
    _register()
    process = _processes.get(os.getpid())
    if process is None:
        new = _Process(may_lack_team=_was_forked_unseen())
        process = _processes.setdefault(os.getpid(), new)
    if process.may_lack_team and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
    return process


@contextmanager
def safe_from_forks() -> Iterator[None]:
    """Block `os.fork()` in other threads while the body runs, for PATIENCE seconds at
    most."""
    process, me = prepare(), get_ident()
    with process.changed:
        while process.forking and not process.computing[me]:
            process.changed.wait()
        process.computing[me] += 1
    try:
        yield
    finally:
        with process.changed:
            process.computing[me] -= 1
            process.computing += Counter()  # drops zeros
            process.changed.notify_all()


@cache
def _register() -> None:
    """Register the functions below, which Python calls in each fork from now on."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_before, after_in_parent=_in_parent, after_in_child=_in_child
        )


def _before() -> None:
    process, until = prepare(), time.monotonic() + PATIENCE
    process.changed.acquire()  # until the fork is made
    process.forking += 1
    while set(process.computing) - {get_ident()} and time.monotonic() < until:
        process.changed.wait(until - time.monotonic())
    global _team_is_ended  # noqa: PLW0603
    _team_is_ended = not process.may_lack_team and _end_team()


def _end_team() -> bool:
    """End the OpenMP threads of the calling thread. Return whether that succeeded."""
    pause = getattr(torch_library(), "omp_pause_resource_all", None)
    return pause is not None and pause(OMP_PAUSE_HARD) == 0


def _in_parent() -> None:
    global _team_is_ended  # noqa: PLW0603
    _team_is_ended = False  # the next fork may be one that Python does not see
    process = _processes[os.getpid()]
    process.forking -= 1
    process.changed.notify_all()
    process.changed.release()


def _in_child() -> None:
    _processes.clear()
    _processes[os.getpid()] = _Process(may_lack_team=not _team_is_ended)
    torch.set_num_threads(1)


def _was_forked_unseen() -> bool:
    """Return whether this process was forked without a call of `_in_child`."""
    if _processes:
        return True
    try:
        numbers = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:  # not Linux: other systems have no GNU OpenMP, or no forks
        return False
    return bool(int(numbers[6]) & PF_FORKNOEXEC)


class ProcessLock:
    """A lock that is free in a forked process, even if the parent held it.

    Args:
        reset: A callback for a forked process. It is called under the lock at first
            use, if the lock was held during the fork: the guarded data may be half
            changed.
    """

    def __init__(self, reset: Callable[[], object] = lambda: None) -> None:
        self._reset, self._process = reset, os.getpid()
        self._of: dict[int, Lock] = {}

    def __enter__(self) -> None:
        process = os.getpid()
        self._of.setdefault(process, Lock()).acquire()
        if self._process != process:
            before = self._of.get(self._process)
            self._process = process
            if before is not None and before.locked():
                self._reset()

    def __exit__(self, *error: object) -> None:
        self._of[os.getpid()].release()
