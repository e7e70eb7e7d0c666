"""The number of threads that compute.

`torch.set_num_threads` changes the number of the calling thread, and of all threads
that first use torch later. A thread that a user started meanwhile would keep the
number. The functions of OpenMP change the number of the calling thread alone.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch


@contextmanager
def thread_count(n: int) -> Iterator[None]:
    """Let the calling thread compute with n threads while the body runs. Other threads
    are not affected."""
    before = torch.get_num_threads()  # sets up a thread that is new to torch
    openmp, mkl = _setters()
    openmp(n)
    mkl_before = mkl(n)
    try:
        yield
    finally:
        openmp(before)
        mkl(mkl_before)


@cache
def _setters() -> tuple[Callable[[int], object], Callable[[int], int]]:
    """Return the functions that set the calling thread's number of threads in OpenMP
    and in MKL. The latter returns the number before. Without MKL it does nothing."""
    library = ctypes.CDLL(torch._C.__file__)  # noqa: SLF001 (linked with both)
    openmp = getattr(library, "omp_set_num_threads", torch.set_num_threads)
    return openmp, getattr(library, "MKL_Set_Num_Threads_Local", lambda n: n)
