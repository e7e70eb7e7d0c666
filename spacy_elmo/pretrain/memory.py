"""Memory: how much a run will need, which is checked before it begins."""

import ctypes
import sys
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import psutil
import torch

from ..errors import Errors
from ..machine import CPU_BATCH_LIMITS, GPU_BATCH_LIMITS
from ..text import SPECIALS
from .model import LanguageModel

FLOAT = 4  # bytes
CGROUP = Path("/sys/fs/cgroup")
LIBRARIES = 400 << 20  # bytes of Python and torch themselves, an estimate
WORD_LENGTH = 24  # bytes of a word; most words of a batch are shorter
# Distinct words of a batch, as a share of its positions: half in small batches of
# English, fewer in larger ones.
DISTINCT = 0.5
# Of glibc's <malloc.h>.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST = (1 << 31) - 1


@dataclass(frozen=True)
class Plan:
    """The work of one process, whose memory is estimated.

    Attributes:
        model: The model; its parameters need have no memory yet.
        n_streams: Streams of one part of the batch.
        unroll_steps: Tokens of each stream.
        moments: Numbers that the optimizer keeps for each parameter.
        on_gpu: Whether it is on a GPU.
        share: Share of the vocabulary that the softmax has.
    """

    model: LanguageModel
    n_streams: int
    unroll_steps: int
    moments: int
    on_gpu: bool = False
    share: float = 1.0

    @property
    def parameters(self) -> tuple[int, int]:
        """Number of parameters of the biLM, and of the softmax."""
        softmax = sum(p.numel() for p in self.model.softmax.parameters())
        return self.model.bilm.n_parameters, int(self.share * softmax)

    def memory(self) -> int:
        """Return the bytes of weights, gradients and moments, and of a batch or a
        checkpoint, whichever is larger. The checkpoint, which takes no memory of a GPU,
        is there twice: as arrays, and as the content of the file."""
        numbers = sum(self.parameters) * (1 + self.moments)
        saved = 0 if self.on_gpu else 2 * FLOAT * numbers
        return LIBRARIES + self.weights() + max(self.activations(), saved)

    def weights(self) -> int:
        """Return the bytes of weights, gradients and moments."""
        bilm, softmax = self.parameters
        gradients = bilm if self.model.softmax.sparse_gradients else bilm + softmax
        return FLOAT * ((bilm + softmax) * (1 + self.moments) + gradients)

    def activations(self) -> int:
        """Return the bytes that the layers keep of one batch for its gradient."""
        sizes, softmax = self.model.bilm.config, self.model.softmax
        n_logits = softmax.logits_per_prediction
        if not softmax.sparse_gradients:
            n_logits = int(self.share * n_logits)
        C, H, S = sizes.hidden_dim, sizes.projection_dim, sizes.n_filters
        positions = 2 * self.n_streams * self.unroll_steps
        # Gates, cells, their tanh, the projection's input, input and output of each
        # layer; and while one layer's gradient is computed, those of its gates.
        lstm = positions * (7 * C + 2 * H) * sizes.n_layers
        lstm += positions // 2 * (6 * C + 2 * H)
        words = int(positions * DISTINCT)
        length = min(WORD_LENGTH, sizes.max_characters) + max(
            (width for width, _ in sizes.filters), default=0
        )
        encoder = words * S * (length + 8 * (1 + sizes.n_highway))
        limits = GPU_BATCH_LIMITS if self.on_gpu else CPU_BATCH_LIMITS
        logits = 3 * min(limits.logits, positions * n_logits)
        return FLOAT * (lstm + encoder + logits)


def available_memory(device: torch.device) -> int:
    """Return the bytes that are free for a process: of the GPU, or of the machine or
    container that it runs in."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    try:
        limit = int((CGROUP / "memory.max").read_text())
        used = int((CGROUP / "memory.current").read_text())
        counts = (line.split() for line in (CGROUP / "memory.stat").open())
        # Cached files don't count, since the system drops them when it needs room.
        used -= {name: int(n) for name, n in counts}["inactive_file"]
    except (OSError, ValueError, KeyError):
        return free  # no container, or one without a limit
    return min(free, limit - used)


def check_fits(plan: Plan, available: int, n_processes: int = 1) -> None:
    """Check that a run fits the memory.

    Args:
        plan: The work of each process.
        available: Bytes that were free before any process took some.
        n_processes: Processes that share them.

    Raises:
        ValueError: [EL048] It does not fit; the message has a batch size or vocabulary
            that would.
    """
    share = available // n_processes
    if plan.memory() <= share:
        return
    n = _largest(lambda n: replace(plan, n_streams=n).memory() <= share, plan.n_streams)
    if n:
        least = -(-plan.n_streams // n)
        parts = next(k for k in count(least) if plan.n_streams % k == 0)
        advice = (
            f"A batch_size of {n} for each process fits, or the same batch with "
            f"accumulate multiplied by {parts}"
        )
    else:
        alone = replace(plan, n_streams=1)
        total = plan.model.softmax.n_words
        n = _largest(lambda n: replace(alone, share=n / total).memory() <= share, total)
        advice = f"A vocabulary of {n:,} words fits with batch_size 1"
        if n <= len(SPECIALS):
            advice = (
                "The biLM alone does not fit: make it smaller in [model], or "
                "unroll_steps in [training]"
            )
    needed, free = gigabytes(plan.memory()), gigabytes(share)
    raise Errors.EL048(needed=needed, available=free, advice=advice)


def _largest(fits: Callable[[int], bool], limit: int) -> int:
    """Return the largest number up to a limit that fits, 0 if none does."""
    return bisect_left(range(1, limit + 1), True, key=lambda n: not fits(n))


def gigabytes(n_bytes: float) -> str:
    """Return a number of bytes as "1.5 GB"."""
    return f"{n_bytes / (1 << 30):.1f} GB"


def keep_freed_memory() -> bool:
    """Tell the C library to keep the freed memory of this process. Return whether it
    does.

    By default glibc gives the arrays of each step back to the system. The next step
    takes them again page by page, which is a sixth of the time on one thread. Only the
    command that trains calls this, for a process of its own.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library, such as musl
        return False
    kept = [mallopt(name, LARGEST) for name in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD)]
    return all(kept)
