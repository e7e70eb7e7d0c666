#!/usr/bin/env bash
# google-crc32c 1.9.0, crc32c 2.9.post0, NumPy 2.4.6, Python 3.11, 2026-11-28.
#
# zlib.crc32 takes any buffer. google_crc32c.value takes a NumPy array too, but refuses a
# memoryview with TypeError, also a read-only one of an array ("must be read-only
# bytes-like object"), so that a large buffer can't be hashed piece by piece without a
# copy of each. crc32c (ICRAR), which has the same numbers, takes all of them.
# Output seen: bytes True True, memoryview TypeError, read-only memoryview TypeError.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q "google-crc32c==1.9.0" "crc32c==2.9.post0" "numpy==2.4.6"
venv/bin/python - <<'PY'
import zlib

import crc32c, google_crc32c, numpy as np

array = np.arange(1000, dtype="f4")
view = memoryview(array).cast("B")
assert google_crc32c.implementation == "c"
right = google_crc32c.value(array.tobytes())
assert google_crc32c.value(array) == right
print("bytes", crc32c.crc32c(view) == right, zlib.crc32(view) > 0)
assert crc32c.crc32c(view) == crc32c.crc32c(view.toreadonly()) == right
for name, each in {"memoryview": view, "read-only memoryview": view.toreadonly()}.items():
    try:
        google_crc32c.value(each)
    except TypeError as error:
        print(name, "TypeError", error)
    else:
        raise SystemExit(f"a {name} is taken now")
PY
