"""How far a run is: its steps, its time, and its losses since the last log line."""

import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .step import StepResult


@dataclass
class Progress:
    """Counters of a run; `recent` are loss and targets summed since the last log line,
    `loss` the mean loss over these steps."""

    n_steps: int
    tokens_per_step: int
    device: torch.device
    step: int = 0
    seconds_before: float = 0.0
    loss: float = 0.0
    learn_rate: float = 0.0
    norm: Tensor = field(default_factory=lambda: torch.zeros(()))
    recent: Tensor = field(init=False)
    started: float = field(default_factory=time.time)
    logged_at: tuple[int, float] = field(init=False)

    def __post_init__(self) -> None:
        self.recent = torch.zeros(2, dtype=torch.float64, device=self.device)
        self.logged_at = (0, self.started)

    def restore(self, saved: dict[str, Any], *, is_first: bool) -> None:
        """Take over what was saved; the sums over all processes by the first alone."""
        self.step = saved["step"]
        self.seconds_before = saved["seconds"]
        self.logged_at = (self.step, time.time())
        if is_first:
            self.recent += self.recent.new_tensor(saved["recent"])

    def count(self, result: StepResult) -> None:
        """Count a step."""
        self.step += 1
        self.norm = result.norm
        n_targets = result.loss.new_tensor(result.n_targets)
        self.recent += torch.stack([result.loss, n_targets])

    @property
    def at_end(self) -> bool:
        """Whether all steps are done."""
        return self.step == self.n_steps

    @property
    def tokens(self) -> int:
        """Number of tokens that were read in each direction."""
        return self.step * self.tokens_per_step

    @property
    def seconds(self) -> float:
        """Time that the run has taken, in all processes that worked on it."""
        return self.seconds_before + time.time() - self.started

    def row(self) -> dict[str, Any]:
        """Return the figures of a line of the log."""
        step, since = self.logged_at
        speed = (self.step - step) * self.tokens_per_step / (time.time() - since)
        return {
            "step": self.step,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 1),
            "loss": self.loss,
            "learn_rate": self.learn_rate,
            "tokens_per_second": round(speed),
            "grad_norm": float(self.norm),
        }

    def logged(self) -> None:
        """Begin the next interval of the log."""
        self.logged_at = (self.step, time.time())
