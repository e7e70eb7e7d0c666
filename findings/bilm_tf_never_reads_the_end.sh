#!/usr/bin/env bash
# bilm 0.1.post5 (bilm-tf), NumPy 2.4.6, Python 3.11, 2026-11-28.
#
# bilm-tf trains and tests on streams whose state is carried from sentence to sentence.
# One would think that a stream is "<S> a b </S> <S> c </S>". It is not: </S> is a target
# and never an input, and the next sentence follows at once. Perplexities of a reader
# that feeds </S> differ from those that bilm-tf prints, in the third digit.
# And the reader's generators end by StopIteration, an error inside a generator since
# Python 3.7 (PEP 479): iterating over a finite text raises RuntimeError at its end.
# Output seen: inputs [0, 3, 4, 0, 5], targets [3 4 1 5 1]; RuntimeError.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q "numpy==2.4.6"
venv/bin/pip download -q --no-deps --no-binary :all: --no-build-isolation "bilm==0.1.post5" 2>/dev/null \
    || venv/bin/pip download -q --no-deps --no-binary :all: "bilm==0.1.post5"
tar xf bilm-0.1.post5.tar.gz
venv/bin/python - <<'PY'
import importlib.util
from pathlib import Path

spec = importlib.util.spec_from_file_location("data", "bilm-0.1.post5/bilm/data.py")
data = importlib.util.module_from_spec(spec)
spec.loader.exec_module(data)  # without the package, which imports TensorFlow

Path("vocab.txt").write_text("<S>\n</S>\n<UNK>\na\nb\nc\n")
Path("text.txt").write_text("a b\nc\n")
vocab = data.Vocabulary("vocab.txt", validate_file=True)
text = data.LMDataset("text.txt", vocab, test=True, shuffle_on_load=False)
inputs, targets = [], []
try:
    for batch in text.iter_batches(1, 1):
        inputs.append(int(batch["token_ids"][0, 0]))
        targets.append(int(batch["next_token_id"][0, 0]))
except RuntimeError as error:
    print("inputs", inputs, "targets", targets, repr(error))
    assert "StopIteration" in str(error)
else:
    raise SystemExit("the stream ends without an error now")
# <S> a b, and then <S> c: the number of </S>, 1, is not among the inputs.
assert inputs == [0, 3, 4, 0, 5][: len(inputs)] and 1 not in inputs, inputs
assert targets == [3, 4, 1, 5, 1][: len(targets)] and 1 in targets, targets
PY
