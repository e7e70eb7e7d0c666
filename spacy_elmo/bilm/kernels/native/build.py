"""How the C library is built: `pip install` does it where there is a C compiler.

cffi, since it makes one library for every Python from 3.11 on (the limited API), calls
it without the interpreter's lock in a third of a microsecond, and needs no line of C of
ours for it: the declarations are those of elmo.h.
"""

import re
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent
# Sums are as the C says: nothing is contracted, reordered or taken for finite.
FLAGS = ["-std=gnu11", "-O3", "-ffp-contract=off", "-fno-math-errno"]
SOURCES = ["find", "avx512_bf16", "avx512", "avx2", "neon"]

ffi = FFI()
header = (HERE / "elmo.h").read_text("utf-8")
ffi.cdef(re.sub(r"^#.*$", "", header, flags=re.MULTILINE))
# Without a compiler, or with one that does not know vectors as GCC and Clang do, the
# package is installed without the library: PyTorch computes then.
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
