"""What a run is expected to take, before it takes it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from ..bilm.config import BiLMConfig
from ..bilm.sampled_softmax import SampledSoftmax
from ..bilm.softmax import CHUNK, AdaptiveSoftmax, Softmax
from ..errors import Errors
from .model import LanguageModel

FLOAT = 4  # bytes
LIBRARIES = 400 << 20  # what Python and torch take themselves
# Bytes each number is typically spelled with in a word longer than most of a batch.
WORD_LENGTH = 24
# Distinct words of a batch, as a share of its positions: half in small batches of
# English, fewer in larger ones.
DISTINCT = 0.5


@dataclass(frozen=True)
class Plan:
    """Sizes of one process's work. n_streams: of one part of its batch."""

    bilm: BiLMConfig
    bilm_parameters: int
    softmax: Softmax
    n_streams: int
    unroll_steps: int
    moments: int = 2  # numbers an optimizer keeps for each parameter

    @classmethod
    def of(cls, model: LanguageModel, n_streams: int, unroll_steps: int) -> "Plan":
        bilm = model.bilm
        return cls(
            bilm.config, bilm.n_parameters, model.softmax, n_streams, unroll_steps
        )

    @property
    def softmax_parameters(self) -> int:
        return sum(p.numel() for p in self.softmax.parameters())

    def memory(self) -> int:
        """Bytes: weights with their gradients and moments, and the largest of what the
        layers of one batch keep for its gradient."""
        return LIBRARIES + self.weights() + self.activations(self.n_streams)

    def weights(self) -> int:
        softmax = self.softmax_parameters
        gradients = 0 if isinstance(self.softmax, SampledSoftmax) else softmax
        numbers = self.bilm_parameters * (2 + self.moments)
        return FLOAT * (numbers + softmax * (1 + self.moments) + gradients)

    def activations(self, n_streams: int) -> int:
        sizes = self.bilm
        C, H, S = sizes.hidden_dim, sizes.projection_dim, sizes.n_filters
        positions = 2 * n_streams * self.unroll_steps
        # lstm.py: gates, cells, input, output of every layer; in the gradient of one
        # direction's layer also the derivatives of its gates.
        lstm = positions * (5 * C + 2 * H) * sizes.n_layers + positions // 2 * 14 * C
        words = int(positions * DISTINCT)
        length = min(WORD_LENGTH, sizes.max_characters) + max(
            (width for width, _ in sizes.filters), default=0
        )
        encoder = words * S * (length + 8 * (1 + sizes.n_highway))
        return FLOAT * (lstm + encoder + self._logits(positions))

    def _logits(self, positions: int) -> int:
        """Numbers: logits, and their gradient."""
        if isinstance(self.softmax, AdaptiveSoftmax):
            n_logits = self.softmax.n_logits
        elif isinstance(self.softmax, SampledSoftmax):
            n_logits = self.softmax.n_samples
        else:
            n_logits = len(self.softmax.weight)
        return 3 * min(CHUNK, positions * n_logits)


def available_memory(device: torch.device) -> int:
    """Bytes that a process can still take: of the GPU, or of the machine, or of the
    container it runs in."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    limit, used = (
        _number(Path("/sys/fs/cgroup") / name)
        for name in ("memory.max", "memory.current")
    )
    return free if limit is None or used is None else min(free, limit - used)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def check_fits(plan: Plan, available: int, n_processes: int = 1) -> None:
    """n_processes: that share the memory. Raises ValueError [EL048] if a run can't fit,
    with the batch size or the vocabulary that would."""
    share = available // n_processes
    if plan.memory() <= share:
        return
    left = share - LIBRARIES - plan.weights()
    fits = _largest(lambda n: plan.activations(n) <= left, plan.n_streams)
    if fits:
        advice = (
            f"A batch_size of {fits} for each process fits, or the same batch with "
            f"accumulate = {-(-plan.n_streams // fits)} times what it is"
        )
    else:
        n_words = sum(len(p) for p in plan.softmax.parameters() if p.dim() == 2)
        each = plan.softmax_parameters / max(1, n_words)
        a_word = int(FLOAT * (2 + plan.moments) * each)
        rest = share - LIBRARIES - (plan.weights() - a_word * n_words)
        words = max(0, (rest - plan.activations(1)) // max(1, a_word))
        advice = f"A vocabulary of {words:,} words fits with batch_size 1"
    raise ValueError(
        Errors.EL048.format(
            needed=gigabytes(plan.memory()), available=gigabytes(share), advice=advice
        )
    )


def _largest(fits: Callable[[int], bool], limit: int) -> int:
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def gigabytes(n_bytes: float) -> str:
    return f"{n_bytes / (1 << 30):.1f} GB"


def duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} seconds"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} minutes"
