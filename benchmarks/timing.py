"""Options of all benchmarks, the memory in use, and pages that were taken."""

from contextlib import suppress

import psutil
import torch

MODEL = "Model folder, a name that ships, or a published size: small, medium, original"
TEXT = "A folder that 'prepare' made; made-up text if none is given"
DEVICE = "cpu, cuda, or the number of a GPU: cuda:1"


def memory_in_use(device: torch.device) -> int:
    """Return bytes: of the process, or the most that were taken of the GPU."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return int(psutil.Process().memory_info().rss)


def page_faults() -> int | None:
    """Return how often this process has taken a page of memory, where that is known."""
    with suppress(ImportError):  # Windows
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    return None
