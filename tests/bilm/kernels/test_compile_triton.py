"""The Triton kernels are compiled for cards that are not here: what ptxas makes of them
spills no register, fits in shared memory, and multiplies in tensor cores."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPILE = Path(__file__).with_name("compile_triton.py")
# A block's shared memory, in bytes, of the smallest card of each generation.
SHARED = {80: 99 * 1024, 90: 227 * 1024}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None, reason="Triton is not installed"
    ),
]


@pytest.fixture(scope="module")
def compiled():
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, str(COMPILE)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_all_kernels_are_compiled(compiled):
    kernels = {found["kernel"] for found in compiled}
    assert len(kernels) == 4
    assert {found["generation"] for found in compiled} == set(SHARED)


def test_no_register_is_spilled(compiled):
    for found in compiled:
        assert found["spills"] == 0, found
        assert found["local_bytes"] == found["stack_bytes"] == 0, found


def test_shared_memory_is_enough(compiled):
    for found in compiled:
        assert found["shared"] <= SHARED[found["generation"]], found


def test_the_projection_is_multiplied_in_tensor_cores(compiled):
    projections = [found for found in compiled if found["kernel"] == "project_kernel"]
    assert {found["dtype"] for found in projections} == {"fp16", "bf16", "fp32"}
    for found in projections:
        assert found["tensor_core_instructions"], found
