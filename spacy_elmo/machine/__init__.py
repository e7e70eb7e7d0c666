"""The machine: threads, forks, and copies to a device and back."""

from .forks import ProcessLock, safe_from_forks
from .threads import numpy_on_one_thread, thread_count
from .transfer import to_device, to_host

__all__ = [
    "ProcessLock", "numpy_on_one_thread", "safe_from_forks", "thread_count",
    "to_device", "to_host",
]  # fmt: skip
