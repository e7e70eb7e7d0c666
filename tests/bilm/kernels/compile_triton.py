"""Compile the Triton kernels without a card, and print what they take as JSON."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from spacy_elmo.bilm.kernels import triton_steps as kernels

CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
LOW = ("d_m", "m", "w", "r", "low_y", "low_m", "low_d_z", "low_d_p", "d_h")
STATE = ("y", "gates", "before", "c", "d_c", "d_y")
TILES = {name: getattr(kernels, name) for name in ("TILE_B", "TILE_H", "TILE_C")}
CONSTANTS = {"CLIP": True, "IEEE": False, "BLOCK": kernels.BLOCK, **TILES}


def compile_kernel(kernel, generation, dtype):
    constants = {k: v for k, v in CONSTANTS.items() if k in kernel.arg_names}
    types = dict.fromkeys(kernel.arg_names, "i32") | {"clip": "fp32"}
    types |= dict.fromkeys(LOW, f"*{dtype}") | dict.fromkeys(STATE, "*fp32")
    types |= dict.fromkeys(constants, "constexpr")
    signature = {name: types[name] for name in kernel.arg_names}
    target = GPUTarget("cuda", generation, 32)
    made = triton.compile(ASTSource(kernel, signature, constants), target=target)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(made.asm["cubin"])
        cubin.flush()
        usage = dump("--dump-resource-usage", cubin.name)
        code = dump("-sass", cubin.name)
    stack, local = re.search(r"STACK:(\d+).*LOCAL:(\d+)", usage).groups()
    return {
        "kernel": kernel.__name__,
        "generation": generation,
        "dtype": dtype,
        "shared": made.metadata.shared,
        "stack_bytes": int(stack),
        "local_bytes": int(local),
        "spills": len(re.findall(r"\b(?:STL|LDL)\b", code)),
        "tensor_core_instructions": len(re.findall(r"\b(?:HMMA|HGMMA)\b", code)),
    }


def dump(option, path):
    command = [str(CUOBJDUMP), option, path]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    found = [
        compile_kernel(kernel, generation, dtype)
        for generation in (80, 90)
        for dtype in ("fp16", "bf16", "fp32")
        for kernel in (
            kernels.cell_kernel,
            kernels.cell_backward_kernel,
            kernels.project_kernel,
            kernels.project_backward_kernel,
        )
    ]
    json.dump(found, sys.stdout)
