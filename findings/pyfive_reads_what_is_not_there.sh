#!/usr/bin/env bash
# pyfive 1.3.0, h5py 3.16.0, NumPy 2.4.6, Python 3.11, 2026-11-28.
#
# pyfive is often taken as "h5py, read only". Of four kinds of arrays that h5py reads or
# refuses, pyfive 1.3.0 says other things, two of them without a word:
# - storage in another file (external): h5py reads the other file; pyfive returns zeros.
# - a virtual dataset: h5py gathers it; pyfive returns None.
# - a 16-bit float that is not IEEE's half (bfloat16): h5py converts it by its exponent;
#   pyfive takes its size alone, and returns other numbers.
# - a dataset without a shape (h5py.Empty): h5py returns Empty; opening it in pyfive
#   raises TypeError.
# Output seen: external [0. 0. 0. 0.] for [1. 2. 3. 4.]; virtual None;
# bfloat16 [0. 1.875 2. 2.125] for [0. 1. 2. 3.]; Empty TypeError.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q "pyfive==1.3.0" "h5py==3.16.0" "numpy==2.4.6"
venv/bin/python - <<'PY'
import h5py, numpy as np, pyfive

numbers = np.arange(1, 5, dtype="f4")
numbers.tofile("other.bin")
with h5py.File("x.h5", "w") as file:
    outside = file.create_dataset("external", (4,), "f4", external=[("other.bin", 0, 16)])
    file["plain"] = numbers
    layout = h5py.VirtualLayout(shape=(4,), dtype="f4")
    layout[:] = h5py.VirtualSource("x.h5", "plain", shape=(4,))
    file.create_virtual_dataset("virtual", layout)
    file["empty"] = h5py.Empty("f4")
    kind = h5py.h5t.IEEE_F16LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_ebias(127)
    brain = h5py.h5d.create(file.id, b"brain", kind, h5py.h5s.create_simple((4,)))
    values = np.arange(4, dtype="f4")
    brain.write(h5py.h5s.ALL, h5py.h5s.ALL, values, h5py.h5t.NATIVE_FLOAT)

with h5py.File("x.h5") as file:
    assert (file["external"][()] == numbers).all()
    assert (file["virtual"][()] == numbers).all()
    back = np.empty(4, "f4")
    file["brain"].id.read(h5py.h5s.ALL, h5py.h5s.ALL, back, h5py.h5t.NATIVE_FLOAT)
    assert (back == values).all()
    assert isinstance(file["empty"][()], h5py.Empty)

with pyfive.File("x.h5") as file:
    found = file["external"][()]
    print("external", found)
    assert (found == 0).all()
    print("virtual", file["virtual"][()])
    assert file["virtual"][()] is None
    print("bfloat16", file["brain"][()])
    assert file["brain"].dtype == np.float16 and (file["brain"][()] != values).any()
    try:
        file["empty"]
    except TypeError as error:
        print("Empty TypeError", error)
    else:
        raise SystemExit("an Empty dataset opens now")
PY
