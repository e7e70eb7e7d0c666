"""Options of all benchmarks, and the memory in use."""

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
