#!/usr/bin/env bash
# elmoformanylangs 0.0.4.post2, Python 3.11, 2026-11-28.
#
# The package brings two files of sizes, cnn_50_100_512_4096_sample.json and
# cnn_0_100_512_4096_sample.json. The numbers in the names are those of char_dim,
# word_dim, projection_dim and dim: 0 would be a model without characters. Both files
# have the same content, with char_dim 50. What a model reads is said by the arrays in
# its token_embedder.pkl, not by the name of the file that its config.json names.
# Output seen: cnn_0_100_512_4096_sample.json char_dim 50.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip download -q --no-deps --no-binary :all: "elmoformanylangs==0.0.4.post2"
tar xf elmoformanylangs-0.0.4.post2.tar.gz
venv/bin/python - <<'PY'
import json
from pathlib import Path

configs = Path("elmoformanylangs-0.0.4.post2/elmoformanylangs/configs")
files = sorted(configs.glob("cnn_*_100_512_4096_sample.json"))
found = {path.name: json.loads(path.read_text()) for path in files}
for name, sizes in found.items():
    print(name, "char_dim", sizes["token_embedder"]["char_dim"])
assert len(found) == 2
first, second = found.values()
assert first == second and first["token_embedder"]["char_dim"] == 50
PY
