"""What only a GPU can show. test_bilm.py and test_training.py need no spaCy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch

DEVICE = "cuda"
needs_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


@contextmanager
def memory_for(share: float, run: Callable[[], object]) -> Iterator[None]:
    """Allow a share of the GPU memory that a run takes beyond what is taken before."""
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    run()
    needs = torch.cuda.max_memory_reserved() - before
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(DEVICE).total_memory
    torch.cuda.set_per_process_memory_fraction((before + share * needs) / total)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
