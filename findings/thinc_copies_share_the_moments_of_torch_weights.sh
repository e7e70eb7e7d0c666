#!/usr/bin/env bash
# thinc 8.3.14 with torch 2.13.0, `Model.copy()` of a `PyTorchWrapper`.
#
# A copied model gets an id of its own, and its torch module is copied, but the shim in it keeps the
# id of the original. An optimizer files the moments of torch's weights by the id of the
# shim, so original and copy are two sets of weights with one set of moments. Here the original
# made 20 steps one way; the first step of the copy the other way still goes the old way. Layers of Thinc
# itself do not do this.
#
# Seen: thinc: its own way True; torch: its own way False
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "thinc==8.3.14" "torch==2.13.0"
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import torch
from thinc.api import Adam, Linear, PyTorchWrapper

X = np.ones((1, 2), dtype="float32")


def step(model, optimizer, gradient):
    Y, backprop = model.begin_update(X)
    backprop(np.full_like(Y, gradient))
    model.finish_update(optimizer)


def own_way(model):
    """Whether the first step of a copy goes against its gradient, as steps do."""
    model.initialize(X=X, Y=X)
    optimizer = Adam(0.1)
    copy = model.copy()
    for _ in range(20):
        step(model, optimizer, 1.0)
    before = copy.predict(X).copy()
    step(copy, optimizer, -1.0)
    return bool((copy.predict(X) > before).all())


print(f"thinc: its own way {own_way(Linear(2, 2))}; "
      f"torch: its own way {own_way(PyTorchWrapper(torch.nn.Linear(2, 2)))}")
PY
)
echo "$seen"
test "$seen" = "thinc: its own way True; torch: its own way False"
