#!/usr/bin/env bash
# torch 2.13.0 on an x86-64 CPU with AVX-512, `nn.LSTM` on packed sequences under
# `torch.autocast("cpu", dtype=torch.bfloat16)`.
#
# A packed batch whose sequences are equally long, or a sequence alone, is computed by oneDNN, in
# bfloat16, states and all. A batch of different lengths is computed by torch's own code, and comes
# out as float32. So the vectors of a sentence differ by the company that it is in, in the third
# digit, and `.numpy()`, which knows no bfloat16, fails at the one batch that happens to be of one
# length, such as a last batch of one. Where oneDNN finds no AVX-512 (its variable hides it here),
# the LSTM itself raises RuntimeError for that batch, and runs all others. With `proj_size`, and in
# a GRU, lengths make no difference. Turn autocast off around an LSTM that reads packed sequences.
#
# Seen: LSTM: alone bfloat16, equal lengths bfloat16, different lengths float32; same numbers False
#       proj_size: alone bfloat16, equal lengths bfloat16, different lengths bfloat16; same numbers True
#       GRU: alone float32, equal lengths float32, different lengths float32; same numbers True
#       to NumPy: equal lengths TypeError, different lengths yes
#       without AVX-512: equal lengths RuntimeError, different lengths yes
set -euo pipefail
if ! grep -q avx512 /proc/cpuinfo; then
  echo "This CPU has no AVX-512." >&2
  exit 1
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "torch==2.13.0" "numpy"
cat > lengths.py <<'PY'
import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence, unpack_sequence

torch.manual_seed(0)
first, second, short = (torch.randn(n, 64) for n in (50, 50, 20))
batches = {
    "alone": [first],
    "equal lengths": [first, second],
    "different lengths": [first, short],
}
layers = {
    "LSTM": nn.LSTM(64, 128),
    "proj_size": nn.LSTM(64, 128, proj_size=32),
    "GRU": nn.GRU(64, 128),
}


@torch.no_grad()
def vectors(layer, batch):
    """The vectors of the first sequence of a batch."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        packed, _ = layer(pack_sequence(batch))
    return unpack_sequence(packed)[0]


def compare(name):
    found = {lengths: vectors(layers[name], batch) for lengths, batch in batches.items()}
    kinds = ", ".join(f"{key} {str(Y.dtype).split('.')[1]}" for key, Y in found.items())
    same = torch.equal(found["alone"].float(), found["different lengths"].float())
    print(f"{name}: {kinds}; same numbers {same}")


def to_numpy(lengths):
    try:
        vectors(layers["LSTM"], batches[lengths]).numpy()
        return "yes"
    except (RuntimeError, TypeError) as error:
        return type(error).__name__


if sys.argv[1] == "to NumPy":
    for name in layers:
        compare(name)
rows = ", ".join(f"{key} {to_numpy(key)}" for key in ("equal lengths", "different lengths"))
print(f"{sys.argv[1]}: {rows}")
PY
seen=$(venv/bin/python -W ignore lengths.py "to NumPy"
       ONEDNN_MAX_CPU_ISA=AVX2 venv/bin/python -W ignore lengths.py "without AVX-512")
echo "$seen"
test "$seen" = "LSTM: alone bfloat16, equal lengths bfloat16, different lengths float32; same numbers False
proj_size: alone bfloat16, equal lengths bfloat16, different lengths bfloat16; same numbers True
GRU: alone float32, equal lengths float32, different lengths float32; same numbers True
to NumPy: equal lengths TypeError, different lengths yes
without AVX-512: equal lengths RuntimeError, different lengths yes"
