"""A process that keeps freed memory takes few new pages for what it has freed."""

import subprocess
import sys

import pytest

MEGABYTES = (1, 3, 5, 7, 9, 11)
STEPS = 10
# Huge pages are turned off (PR_SET_THP_DISABLE): a few of them hold all of it.
CODE = f"""
import ctypes
import resource
import torch
from spacy_elmo.pretrain.memory import keep_freed_memory

def step():
    arrays = [torch.ones(n << 18) for n in {MEGABYTES}]
    arrays = [array + 1 for array in arrays]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

assert ctypes.CDLL(None).prctl(41, 1, 0, 0, 0) == 0
assert keep_freed_memory()
for _ in range(3):
    step()
before = faults()
for _ in range({STEPS}):
    step()
print(faults() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc is Linux's")
def test_freed_memory_is_used_again():
    new = int(subprocess.check_output([sys.executable, "-c", CODE]))
    pages = STEPS * 2 * sum(MEGABYTES) << 8  # of 4 kB; all may be new without it
    assert new < pages / 30
