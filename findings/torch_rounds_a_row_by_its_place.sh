#!/usr/bin/env bash
# torch 2.13.0 on a CPU with AVX2 or AVX-512 (x86-64), one thread, float32.
#
# An elementwise function does not give a number the same bits everywhere. Vector code computes
# most of a tensor, and other code what is left over at its end, or what does not lie side by
# side in memory; the two round differently. So a row has other bits in a batch than alone:
# `gelu`, `sigmoid`, `silu` and `softplus`, though nothing but the row goes into them. `tanh` and
# `log1p` gave the same bits everywhere. Who needs the same vectors in any batch has to compute
# row by row, or write these functions.
#
# Seen: in a batch: gelu yes, log1p no, sigmoid yes, silu yes, softplus yes, tanh no
#       every second number: gelu yes, log1p no, sigmoid yes, silu yes, softplus yes, tanh no
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "torch==2.13.0" "numpy"
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
import torch
from torch.nn import functional as F

torch.manual_seed(0)
torch.set_num_threads(1)
functions = {
    "gelu": F.gelu,
    "log1p": lambda x: torch.log1p(x.abs()),
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "softplus": F.softplus,
    "tanh": torch.tanh,
}


def in_a_batch(row):
    batch = torch.randn(50, len(row))
    batch[25] = row
    return batch, lambda Y: Y[25]


def every_second_number(row):
    wide = torch.zeros(2 * len(row))
    wide[::2] = row
    return wide[::2], lambda Y: Y


def differs(f, place):
    """Whether a row of any of these lengths has other bits there than alone."""
    for n in (1, 3, 7, 15, 16, 17, 31, 33, 37, 64, 100, 1000):
        for _ in range(20):
            row = torch.randn(n)
            X, found = place(row)
            if not torch.equal(found(f(X)), f(row)):
                return "yes"
    return "no"


for place in (in_a_batch, every_second_number):
    rows = ", ".join(f"{name} {differs(f, place)}" for name, f in functions.items())
    print(f"{place.__name__.replace('_', ' ')}: {rows}")
PY
)
echo "$seen"
test "$seen" = "in a batch: gelu yes, log1p no, sigmoid yes, silu yes, softplus yes, tanh no
every second number: gelu yes, log1p no, sigmoid yes, silu yes, softplus yes, tanh no"
