"""A process that keeps freed memory takes few new pages for what it has freed."""

import subprocess
import sys

import pytest

CODE = """
import resource
import torch
from spacy_elmo.pretrain.memory import keep_freed_memory

def step():
    arrays = [torch.ones(n << 18) for n in (1, 3, 5, 7, 9, 11)]  # megabytes
    arrays = [array + 1 for array in arrays]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if {keeps}:
    assert keep_freed_memory()
for _ in range(3):
    step()
before = faults()
for _ in range(10):
    step()
print(faults() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc is Linux's")
def test_freed_memory_is_used_again():
    without, kept = (
        int(subprocess.check_output([sys.executable, "-c", CODE.format(keeps=keeps)]))
        for keeps in (False, True)
    )
    assert kept < without / 5
