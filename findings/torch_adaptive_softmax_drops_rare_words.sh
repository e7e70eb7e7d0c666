#!/usr/bin/env bash
# torch 2.13.0, `AdaptiveLogSoftmaxWithLoss`.
#
# Each tail cluster has a projection that is `div_value` times as narrow as the one before it,
# rounded down. With four tails and 32 features the third and fourth have a width of 0: no
# warning is given, every word of such a cluster has the same probability in every
# context, and no training changes that. With the default `div_value=4.0` the features have to be at
# least 4 to the power of the number of tails.
#
# Seen: widths [8, 2, 0, 0]; one probability in the last cluster: True; after training: True
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "torch==2.13.0"
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
import torch

torch.manual_seed(0)
softmax = torch.nn.AdaptiveLogSoftmaxWithLoss(32, 100, cutoffs=[10, 20, 40, 60])
optimizer = torch.optim.Adam(softmax.parameters(), lr=0.1)
features = torch.randn(5, 32)


def equal():
    last = softmax.log_prob(features)[:, 60:]
    return bool((last == last[:, :1]).all())


widths, before = [tail[0].out_features for tail in softmax.tail], equal()
for _ in range(50):
    optimizer.zero_grad()
    softmax(features, torch.tensor([60, 70, 80, 90, 99])).loss.backward()
    optimizer.step()
print(f"widths {widths}; one probability in the last cluster: {before}; after training: {equal()}")
PY
)
echo "$seen"
test "$seen" = "widths [8, 2, 0, 0]; one probability in the last cluster: True; after training: True"
