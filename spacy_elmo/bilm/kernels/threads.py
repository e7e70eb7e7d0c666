"""The two directions of an LSTM on a thread each.

torch shares every product out among its threads and waits for all of them after each.
For the small products of a step the wait costs what the sharing brings, and beside a
busy process it costs fifty times as much. The directions never wait for one another.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, partial
from typing import TypeVar

import torch

T = TypeVar("T")

# Rows of a step times its cells from which two threads of Python, of which one at a
# time has the interpreter, are faster than one: 5 rows of 1024 cells are, 5 of 512 not.
LEAST_WORK = 4096


def side_by_side(
    first: Callable[[], T], second: Callable[[], T], work: float
) -> tuple[T, T]:
    """Results of both; at once if they are work enough and torch has the threads, of
    which each gets half."""
    n_threads = torch.get_num_threads()
    each = max(1, n_threads // 2)
    if n_threads == 1:
        return first(), second()
    try:
        if work < LEAST_WORK:
            torch.set_num_threads(1)
            return first(), second()
        other = _pool(os.getpid()).submit(_with_threads, each, second)
        torch.set_num_threads(each)
        try:
            return first(), other.result()
        finally:
            if not other.cancel():  # if the first failed
                wait([other])
    finally:
        torch.set_num_threads(n_threads)


def _with_threads(n_threads: int, task: Callable[[], T]) -> T:
    """Of a thread that has begun, both settings are its own. (One of the user's that
    meets torch for the first time meanwhile takes over the number of threads.)"""
    torch.set_num_threads(n_threads)
    with torch.no_grad():
        return task()


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Threads don't survive a fork: each process has its own."""
    return ThreadPoolExecutor(thread_name_prefix="elmo")


if hasattr(os, "register_at_fork"):
    # torch's threads don't survive a fork either, and a child that asked for them would
    # wait for ever (nlp.pipe with n_process): let children do with one each.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))
