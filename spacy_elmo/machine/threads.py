"""The number of threads that compute.

`torch.set_num_threads` changes the number of the calling thread, and of all threads
that first use torch later. A thread that a user started meanwhile would keep the
number. The functions of OpenMP change the number of the calling thread alone.
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Any

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


class _NumPy:
    """The users of `numpy_on_one_thread`, and the number of threads before the
    first."""

    def __init__(self) -> None:
        self.lock, self.users, self.before = Lock(), 0, 1


_numpy: dict[int, _NumPy] = {}  # by process id, so that a fork begins with its own


@contextmanager
def numpy_on_one_thread() -> Iterator[None]:
    """Let NumPy multiply on one thread while the body runs. Its library has one number
    of threads for the whole process. It is restored when the last user leaves."""
    get, set_number = numpy_functions()
    state = _numpy.setdefault(os.getpid(), _NumPy())
    with state.lock:
        if state.users == 0:
            state.before = get()
            set_number(1)
        state.users += 1
    try:
        yield
    finally:
        with state.lock:
            state.users -= 1
            if state.users == 0:
                set_number(state.before)


@cache
def numpy_functions() -> tuple[Callable[[], int], Callable[[int], object]]:
    """Return the functions that get and set the number of threads of OpenBLAS, which
    NumPy brings. With another library they do nothing."""
    spec = find_spec("numpy._core._multiarray_umath")
    library: Any = ctypes.CDLL(spec.origin) if spec else None
    for prefix, suffix in product(("scipy_", ""), ("64_", "")):
        name = f"{prefix}openblas_%s_num_threads{suffix}"
        if hasattr(library, name % "set"):
            return getattr(library, name % "get"), getattr(library, name % "set")
    return lambda: 1, lambda n: n


@cache
def _setters() -> tuple[Callable[[int], object], Callable[[int], int]]:
    """Return the functions that set the calling thread's number of threads in OpenMP
    and in MKL. The latter returns the number before. Without MKL it does nothing."""
    library = _torch_library()
    openmp = getattr(library, "omp_set_num_threads", torch.set_num_threads)
    return openmp, getattr(library, "MKL_Set_Num_Threads_Local", lambda n: n)


@cache
def _torch_library() -> ctypes.CDLL | None:
    """Return torch's own library, which also gives access to the libraries that it is
    linked with; None if it is not found."""
    folder = Path(torch.__file__).parent / "lib"
    for name in ("libtorch_cpu.so", "libtorch_cpu.dylib", "torch_cpu.dll"):
        if (folder / name).exists():
            return ctypes.CDLL(str(folder / name))
    return None
