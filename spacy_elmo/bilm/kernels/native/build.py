"""The build of the C library, by `pip install`, where there is a C compiler.

cffi makes one library for every Python from 3.11 on (the limited API). It releases the
interpreter's lock during a call. It reads the declarations from elmo.h, so that no
binding has to be written in C. A call costs a third of a microsecond (docs/kernels.md).
"""

import re
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent
# Floating-point arithmetic is as written in C: no contraction, no reordering, and NaN
# and infinity are possible.
FLAGS = ["-std=gnu11", "-O3", "-ffp-contract=off", "-fno-math-errno"]
SOURCES = ["find", "avx512_bf16", "avx512", "avx2", "neon"]

ffi = FFI()
header = (HERE / "elmo.h").read_text("utf-8")
ffi.cdef(re.sub(r"^#.*$", "", header, flags=re.MULTILINE))
# optional: without a compiler, or with one that lacks the vectors of GCC and Clang, the
# package is installed without the library, and PyTorch computes.
ffi.set_source(
    "spacy_elmo.bilm.kernels.native._elmo",
    '#include "elmo.h"',
    sources=[str(HERE / f"{name}.c") for name in SOURCES],
    include_dirs=[str(HERE)],
    extra_compile_args=FLAGS,
    extra_link_args=["-pthread"],
    py_limited_api=True,
    optional=True,
)
