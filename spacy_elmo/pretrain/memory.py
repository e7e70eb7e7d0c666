"""Keep the memory of one training step for the next."""

import ctypes
import sys

# Of glibc's <malloc.h>.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST = (1 << 31) - 1


def keep_freed_memory() -> bool:
    """Tell the C library to keep freed memory of this process for later use.

    Every step of training takes and frees arrays of megabytes. By default glibc gives
    each back to the system, and the next step takes it again page by page: tens of
    thousands of page faults a step, a sixth of the time on one thread. The command
    that trains calls this for its own process; `pretrain` does not, since the
    process it runs in is its caller's.

    Returns:
        Whether there was such a library to tell.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library, such as musl
        return False
    kept = [mallopt(name, LARGEST) for name in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD)]
    return all(kept)
