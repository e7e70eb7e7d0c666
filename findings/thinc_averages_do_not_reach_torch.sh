#!/usr/bin/env bash
# thinc 8.3.14 with torch 2.13.0, `model.use_params(optimizer.averages)`.
#
# An optimizer with use_averages=True keeps averages of torch's parameters too, but under
# keys (id, name). `PyTorchShim.use_params` looks for keys "pytorch_{id}_{name}", finds
# none, and leaves the weights as they are, without an error. So `spacy train`, which
# evaluates and saves inside of `use_params`, averages spaCy's own layers and not what a
# `PyTorchWrapper` holds.
#
# Seen: thinc True torch False
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


def differs(model):
    """Whether averages of five steps predict something else than the last weights."""
    model.initialize(X=X, Y=X)
    optimizer = Adam(0.1, use_averages=True)
    for _ in range(5):
        Y, backprop = model.begin_update(X)
        backprop(Y - 3)
        model.finish_update(optimizer)
    assert len(optimizer.averages) == 2
    last = model.predict(X)
    with model.use_params(optimizer.averages):
        return not np.array_equal(model.predict(X), last)


print("thinc", differs(Linear(2, 2)), "torch", differs(PyTorchWrapper(torch.nn.Linear(2, 2))))
PY
)
echo "$seen"
test "$seen" = "thinc True torch False"
