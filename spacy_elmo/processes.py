"""How processes end: by a signal to stop, or with the process that started them."""

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM, as cluster schedulers send it."""


class StopSignals:
    """While entered, notes Ctrl-C and SIGTERM in `asked`, for the work to stop at its
    next safe point. A second Ctrl-C stops at once.

    Outside of the main thread, which alone gets signals, it does nothing.
    """

    def __init__(self) -> None:
        self.asked = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal came; of SIGTERM it is Terminated."""
        if self.asked:
            raise Terminated if self.asked == signal.SIGTERM else KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = number


def end_with_parent(connection: Connection | None = None) -> None:
    """Make this process end when the one that started it ends, however that happens,
    or closes the other end of a connection. Ctrl-C is left to that process."""
    parent = multiprocessing.parent_process()
    watched = [connection] if connection is not None else []
    watched += [parent.sentinel] if parent is not None else []  # type: ignore[list-item]

    def end() -> None:
        wait(watched)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end, daemon=True).start()
