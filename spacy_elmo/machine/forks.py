"""What a forked process computes with, and when a process may fork.

Only the thread that forks lives on in the new process. Locks that others held at that
moment stay held there for ever, those of oneDNN inside torch too.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from threading import Condition, Lock, get_ident

from .threads import thread_count

PATIENCE = 10.0  # seconds, after which a fork waits for a batch no longer
_PROCESS = os.getpid()


class _Computing:
    """The threads that compute, and how many wait to fork."""

    def __init__(self) -> None:
        self.changed, self.threads = Condition(), Counter[int]()
        self.forking = 0


class ProcessLock:
    """A lock that is free in a forked process, whoever held it in its parent.

    reset: Called under the lock in a forked process, before anything else there, if the
    lock was held when it forked: what it guards may be half changed.
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


_states: dict[int, _Computing] = {}  # of a process; a fork begins with its own


def _state() -> _Computing:
    return _states.setdefault(os.getpid(), _Computing())


@contextmanager
def safe_from_forks() -> Iterator[None]:
    """Compute inside so that another thread's fork waits for the end of it (training
    waits for the end of the forward pass), and with one thread if this process was
    forked from one that had imported this module: OpenMP's threads don't survive a
    fork, and who asks for them would wait for ever (`nlp.pipe` with n_process)."""
    _wait_before_forks()
    state, me = _state(), get_ident()
    with state.changed:
        while state.forking and not state.threads[me]:
            state.changed.wait()
        state.threads[me] += 1
    try:
        with nullcontext() if os.getpid() == _PROCESS else thread_count(1):
            yield
    finally:
        with state.changed:
            state.threads[me] -= 1
            state.threads += Counter()  # drops zeros
            state.changed.notify_all()


@cache
def _wait_before_forks() -> None:
    """See to it that a fork waits for threads that compute, from the first on."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before, after_in_parent=_in_parent)


def _before() -> None:
    state, until = _state(), time.monotonic() + PATIENCE
    state.changed.acquire()  # until the fork is made
    state.forking += 1
    while set(state.threads) - {get_ident()} and time.monotonic() < until:
        state.changed.wait(until - time.monotonic())


def _in_parent() -> None:
    state = _state()
    state.forking -= 1
    state.changed.notify_all()
    state.changed.release()
