"""The memory that a run is expected to take, before it takes it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import torch

from ..bilm.config import BiLMConfig
from ..bilm.objectives.objective import CHUNK
from ..errors import Errors
from .model import LanguageModel
from .units import gigabytes

FLOAT = 4  # bytes
CGROUP = Path("/sys/fs/cgroup")
LIBRARIES = 400 << 20  # what Python and torch take themselves
# Bytes of a word longer than most words of a batch.
WORD_LENGTH = 24
# Distinct words of a batch, as a share of its positions: half in small batches of
# English, fewer in larger ones.
DISTINCT = 0.5


@dataclass(frozen=True)
class Plan:
    """Sizes of one process's work: n_logits are those of one prediction, n_streams
    those of one part of its batch, moments the optimizer's for each parameter."""

    bilm: BiLMConfig
    bilm_parameters: int
    softmax_parameters: int
    n_words: int
    n_logits: int
    sparse: bool
    n_streams: int
    unroll_steps: int
    moments: int
    on_gpu: bool = False

    @classmethod
    def for_model(
        cls,
        model: LanguageModel,
        *,
        n_streams: int,
        unroll_steps: int,
        moments: int,
        on_gpu: bool = False,
    ) -> "Plan":
        """Return the plan of a model, whose parameters need have no memory yet."""
        softmax = model.softmax
        return cls(
            bilm=model.bilm.config,
            bilm_parameters=model.bilm.n_parameters,
            softmax_parameters=sum(p.numel() for p in softmax.parameters()),
            n_words=softmax.n_words,
            n_logits=softmax.logits_per_prediction,
            sparse=softmax.sparse_gradients,
            n_streams=n_streams,
            unroll_steps=unroll_steps,
            moments=moments,
            on_gpu=on_gpu,
        )

    def with_words(self, n_words: int) -> "Plan":
        """Return the plan with a smaller vocabulary."""
        share = n_words / self.n_words
        return replace(
            self,
            n_words=n_words,
            softmax_parameters=int(share * self.softmax_parameters),
            n_logits=self.n_logits if self.sparse else int(share * self.n_logits),
        )

    def memory(self) -> int:
        """Return the bytes of weights, gradients and moments, and of either a batch or,
        except on a GPU, a checkpoint: as arrays, and as the content of a file."""
        numbers = self.bilm_parameters + self.softmax_parameters
        saved = 0 if self.on_gpu else 2 * FLOAT * numbers * (1 + self.moments)
        return LIBRARIES + self.weights() + max(self.activations(), saved)

    def weights(self) -> int:
        """Return the bytes of weights, gradients and moments."""
        gradients = 0 if self.sparse else self.softmax_parameters
        numbers = self.bilm_parameters * (2 + self.moments)
        return FLOAT * (
            numbers + self.softmax_parameters * (1 + self.moments) + gradients
        )

    def activations(self) -> int:
        """Return the bytes that the layers of one batch keep for its gradient."""
        sizes = self.bilm
        C, H, S = sizes.hidden_dim, sizes.projection_dim, sizes.n_filters
        positions = 2 * self.n_streams * self.unroll_steps
        # Gates, cells, input and output of every layer; in the gradient of one
        # direction's layer also the derivatives of its gates.
        lstm = positions * (5 * C + 2 * H) * sizes.n_layers + positions // 2 * 14 * C
        words = int(positions * DISTINCT)
        length = min(WORD_LENGTH, sizes.max_characters) + max(
            (width for width, _ in sizes.filters), default=0
        )
        encoder = words * S * (length + 8 * (1 + sizes.n_highway))
        logits = 3 * min(CHUNK, positions * self.n_logits)
        return FLOAT * (lstm + encoder + logits)


def available_memory(device: torch.device) -> int:
    """Return the bytes that a process can still take: of the GPU, or of the machine or
    the container that it runs in."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    try:
        limit, used = (
            int((CGROUP / name).read_text())
            for name in ("memory.max", "memory.current")
        )
        counts = (line.split() for line in (CGROUP / "memory.stat").open())
        # Cached files, which can be read again, don't count.
        used -= {name: int(n) for name, n in counts}["inactive_file"]
    except (OSError, ValueError, KeyError):
        return free  # no container, or one without a limit
    return min(free, limit - used)


def check_fits(plan: Plan, available: int, n_processes: int = 1) -> None:
    """Raise ValueError [EL048], with a batch size or vocabulary that would fit, unless
    each of n_processes fits its share of the bytes that were free before any was taken.
    """
    share = available // n_processes
    if plan.memory() <= share:
        return
    n = _largest(lambda n: replace(plan, n_streams=n).memory() <= share, plan.n_streams)
    if n:
        advice = (
            f"A batch_size of {n} for each process fits, or the same batch with "
            f"accumulate = {-(-plan.n_streams // n)} times what it is"
        )
    else:
        alone = replace(plan, n_streams=1)
        n = _largest(lambda n: alone.with_words(n).memory() <= share, plan.n_words)
        advice = f"A vocabulary of {n:,} words fits with batch_size 1"
    raise ValueError(
        Errors.EL048.format(
            needed=gigabytes(plan.memory()), available=gigabytes(share), advice=advice
        )
    )


def _largest(fits: Callable[[int], bool], limit: int) -> int:
    """Return the largest number up to a limit that fits, by bisection."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
