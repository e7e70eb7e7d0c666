"""Signals to stop: Ctrl-C, or SIGTERM as cluster schedulers send it."""

import signal
import threading
from types import FrameType
from typing import Any


class Stopped(Exception):
    """A run was asked to stop, and has saved what it needs to resume."""

    def __init__(self, signal_number: int, step: int, n_steps: int) -> None:
        self.signal_number = signal_number
        super().__init__(
            f"Stopped after step {step:,} of {n_steps:,}, and saved. The same "
            "command, without --force, resumes it."
        )


class StopSignals:
    """While entered, it notes a signal in `asked`, for the run to stop after its step;
    a second Ctrl-C stops at once."""

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

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = number
