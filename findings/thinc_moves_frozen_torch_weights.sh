#!/usr/bin/env bash
# thinc 8.3.14 with torch 2.13.0, a `PyTorchWrapper` whose weights are frozen after some steps.
#
# `requires_grad_(False)` stops weights that never had a gradient. It does not stop those that
# have learned before: thinc sets gradients to zero and not to None, so each step gives the
# optimizer a gradient of zero for them. Adam goes on by its momentum, for the length of about
# eight steps, and weight decay (`L2`, 0.01 in spaCy's settings) goes on for ever. Layers that
# later batches do not run through have zeros for gradients too. A loop in torch leaves both alone,
# since its `zero_grad` sets None. Set `parameter.grad = None` when you freeze; for layers
# that are not used, after each step.
#
# Seen: frozen weights go on for: thinc 8 steps, with grad = None 0 steps, torch 0 steps;
#       length after 5000 steps: L2 0 1.0, L2 0.01 0.6
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "thinc==8.3.14" "torch==2.13.0"
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import torch
from thinc.api import Adam, PyTorchWrapper
from torch import nn

torch.set_num_threads(1)
RATE = 0.01
X = np.ones((2, 3), dtype="float32")


def by_thinc(module, L2=0.0):
    model = PyTorchWrapper(module).initialize(X=X)
    optimizer = Adam(RATE, L2=L2)

    def step():
        Y, backprop = model.begin_update(X)
        backprop(Y - 1)
        model.finish_update(optimizer)

    return step


def by_torch(module):
    optimizer = torch.optim.Adam(module.parameters(), RATE)

    def step():
        optimizer.zero_grad()
        ((module(torch.from_numpy(X)) - 1) ** 2).sum().backward()
        optimizer.step()

    return step


def weights(trainer, *, further, grad_to_none=False, **settings):
    """The weights of a layer when it is frozen, after 5 steps, and after further steps."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    step = trainer(module, **settings)
    found = []
    for steps in (5, *further):
        for _ in range(steps):
            step()
        found.append(module[0].weight.detach().clone())
        module[0].requires_grad_(False)
        if grad_to_none:
            for parameter in module[0].parameters():
                parameter.grad = None
    return found


def steps(trainer, **settings):
    """How many steps of the rate of learning the frozen weights went."""
    frozen, later = weights(trainer, further=[50], **settings)
    return round(float((later - frozen).abs().max()) / RATE)


def length(L2):
    _, settled, later = weights(by_thinc, further=[100, 5000], L2=L2)
    return round(float(later.norm() / settled.norm()), 1)


print(
    f"frozen weights go on for: thinc {steps(by_thinc)} steps,",
    f"with grad = None {steps(by_thinc, grad_to_none=True)} steps, torch {steps(by_torch)} steps;",
)
print(f"length after 5000 steps: L2 0 {length(0.0)}, L2 0.01 {length(0.01)}")
PY
)
echo "$seen"
test "$seen" = "frozen weights go on for: thinc 8 steps, with grad = None 0 steps, torch 0 steps;
length after 5000 steps: L2 0 1.0, L2 0.01 0.6"
