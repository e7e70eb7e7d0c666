"""The C library of 64-bit Arm, built by a cross compiler and run by an emulator, gives
the bits of the library that runs here."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from spacy_elmo import BiLM
from spacy_elmo.bilm.kernels import native
from spacy_elmo.bilm.kernels.kernel import force
from spacy_elmo.bilm.kernels.native.build import FLAGS, HERE, SOURCES

from .test_native import LARGE, ODD, TEXT, same

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(native.best() is None, reason="nothing to compare with"),
    pytest.mark.skipif(
        not (shutil.which(COMPILER) and shutil.which(EMULATOR)),
        reason=f"there is no {COMPILER}, or no {EMULATOR}",
    ),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("arm") / "emulated"
    files = [
        Path(__file__).with_name("emulated.c"),
        *(HERE / f"{s}.c" for s in SOURCES),
    ]
    command = [COMPILER, *FLAGS, "-Wall", "-Werror", "-static", "-pthread", f"-I{HERE}"]
    subprocess.run([*command, "-o", path, *files, "-lm"], check=True)
    return path


class Emulated:
    """The functions of elmo_kernels, each a run of the program."""

    vector, panel, has_bfloat16 = 4, 4, False

    def __init__(self, program, n_threads):
        self.command = [EMULATOR, program]
        self.n_threads = n_threads
        self.were_run: set[str] = set()

    def run(self, name, *values):
        self.were_run.add(name)
        found = subprocess.run(
            [*self.command, name, str(self.n_threads)],
            input=b"".join(map(written, values)),
            stdout=subprocess.PIPE,
            check=True,
        )
        return found.stdout

    def columns(self, n):
        size = 4 * self.vector
        return -(-n // size) * size

    def read(self, r, _):
        L, H, C, N, B = r.n_layers, r.width, r.cells, r.n_rows, r.n_sequences
        gates, projected = 4 * -(-C // self.vector) * self.vector, self.columns(H)
        weight = 4 if r.mode == native.FLOAT32 else 2

        def rows(K):
            return K if r.mode == native.FLOAT32 else -(-K // 2) * 2

        n_words = 1 + max(r.read_rows[d][i] for d in (0, 1) for i in range(N))
        values = [
            r.mode,
            r.residual,
            L,
            H,
            C,
            N,
            B,
            r.n_steps,
            r.cell_clip,
            r.proj_clip,
        ]
        values += [copied(r.batch_sizes, 8 * r.n_steps), copied(r.x, 4 * n_words * H)]
        for d in (0, 1):
            values += [copied(r.read_rows[d], 8 * N), copied(r.write_rows[d], 8 * N)]
            values += [copied(r.h[d], 4 * L * B * H), copied(r.c[d], 4 * L * B * C)]
            for layer in range(L):
                of_layer = r.layers[d][layer]
                values += [
                    copied(of_layer.weight_x, weight * rows(H) * gates),
                    copied(of_layer.weight_h, weight * rows(H) * gates),
                    copied(of_layer.weight_p, weight * rows(C) * projected),
                    copied(of_layer.bias, 4 * gates),
                ]
        found = self.run("read", *values)
        for to, size in [
            (r.out, 4 * (L + 1) * N * 2 * H),
            *(
                x
                for d in (0, 1)
                for x in ((r.h[d], 4 * L * B * H), (r.c[d], 4 * L * B * C))
            ),
        ]:
            native.ffi.memmove(to, found[:size], size)
            found = found[size:]
        return len(found)

    def char_cnn(self, c, _):
        n_ids = c.n_words * c.n_columns
        table = 1 + max(c.ids[i] for i in range(n_ids))
        weight = 4 if c.mode == native.FLOAT32 else 2
        rows = sum(c.widths[g] * c.char_dim for g in range(c.n_groups))
        found = self.run(
            "char_cnn",
            *(c.mode, c.is_tanh, c.n_words, c.n_columns, c.char_dim, c.n_groups),
            c.n_filters,
            copied(c.ids, 8 * n_ids),
            copied(c.table, 4 * table * c.char_dim),
            copied(c.filters, weight * rows * 4 * self.vector),
            copied(c.widths, 8 * c.n_groups),
            copied(c.columns, 8 * c.n_groups * 4 * self.vector),
            copied(c.bias, 4 * c.n_filters),
        )
        native.ffi.memmove(c.out, found, 4 * c.n_words * c.n_filters)
        return 0

    def product(self, name, p, n_matrices):
        size = 4 * self.vector // n_matrices
        columns = -(-p.n_out // size) * 4 * self.vector
        weight = 4 * p.n_in if p.mode == native.FLOAT32 else 2 * -(-p.n_in // 2) * 2
        found = self.run(
            name,
            *(p.mode, p.n_rows, p.n_in, p.n_out),
            copied(p.x, 4 * p.n_rows * p.n_in),
            copied(p.weight, weight * columns),
            copied(p.bias, 4 * columns),
        )
        native.ffi.memmove(p.out, found, 4 * p.n_rows * p.n_out)
        return 0

    def linear(self, p, _):
        return self.product("linear", p, 1)

    def highway(self, p, _):
        return self.product("highway", p, 2)


def copied(address, size):
    return bytes(native.ffi.buffer(address, size)) if address else b""


def written(value):
    if isinstance(value, bytes):
        return struct.pack("<q", len(value)) + value
    return struct.pack("<f" if isinstance(value, float) else "<q", value)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("config", [ODD, LARGE], ids=["odd", "large"])
@pytest.mark.parametrize("precision", ["float32", "half"])
def test_it_gives_the_same_bits(program, config, precision, n_threads, monkeypatch):
    with force(instructions="avx2"):  # it widens bfloat16 too
        bilm = BiLM.random(config, seed=1).set_precision(precision)
        expected, state = bilm.encode_stateful(TEXT)
    emulated = Emulated(program, n_threads)
    arm = native.Library("neon", emulated)
    monkeypatch.setattr(native, "load", lambda name: arm)
    bilm = BiLM.random(config, seed=1).set_precision(precision)
    found, last = bilm.encode_stateful(TEXT)
    assert emulated.were_run == {"char_cnn", "highway", "linear", "read"}
    assert same(found, expected)
    assert same([*last.forward, *last.backward], [*state.forward, *state.backward])
