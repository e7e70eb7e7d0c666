"""HDF5 files as h5py writes them, read without the HDF5 library: the same bits, or one
message."""

import contextlib
import math
import os
import random
import tracemalloc
import zlib

import h5py
import numpy as np
import pytest

from spacy_elmo.bilm.weights.hdf5 import open_file

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(37, 50)).astype("f4")
DAMAGED = r"EL002.*a piece of an array is damaged"


def read(path, name="group/x"):
    with open_file(path) as file:
        return file.read(name)


@pytest.fixture
def write(tmp_path):
    """Write an array with settings of h5py, and return the path."""

    def create(data=NUMBERS, *, file=None, **settings):
        path = tmp_path / "x.hdf5"
        with h5py.File(path, "w", **(file or {})) as opened:
            opened.create_dataset("group/x", data=data, **settings)
        return path

    return create


@pytest.mark.parametrize("file", [{}, {"libver": "v108"}, {"libver": "earliest"}])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"chunks": (8, 16)},
        {"chunks": (37, 50), "compression": "gzip"},
        {"chunks": (10, 50), "compression": "gzip", "shuffle": True},
        {"chunks": (1, 1)},
        {"maxshape": (None, 50)},
    ],
)
def test_same_bits(write, file, settings):
    assert np.array_equal(read(write(file=file, **settings)), NUMBERS)


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4", ">f8"])
def test_other_floats(write, dtype):
    for settings in ({}, {"chunks": (8, 16), "shuffle": True}):
        found = read(write(NUMBERS.astype(dtype), **settings))
        assert found.dtype == dtype
        assert np.array_equal(found, NUMBERS.astype(dtype))


def test_a_block_before_the_file(write):
    """pyfive does not read it."""
    with pytest.raises(ValueError, match="EL002"):
        read(write(file={"userblock_size": 1024}))


def test_small_and_empty_shapes(write):
    for data in (np.float32(3), np.zeros((0, 4), "f4"), np.ones(1, "f8")):
        assert np.array_equal(read(write(data)), data)


def test_compact(tmp_path):
    """An array among the metadata."""
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        space = h5py.h5s.create_simple((3,))
        kind = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        kind.set_layout(h5py.h5d.COMPACT)
        dataset = h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, space, kind)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(3, dtype="f4"))
    assert np.array_equal(read(tmp_path / "x.hdf5", "x"), np.arange(3, dtype="f4"))


def soft_link(file):
    file["link"] = h5py.SoftLink("/group/x")


def dangling_link(file):
    file["group/link"] = h5py.SoftLink("/nowhere")


def link_to_itself(file):
    file["group/link"] = h5py.SoftLink("/group/link")


def second_name(file):
    file["again"] = file["group/x"]


def virtual(file):
    layout = h5py.VirtualLayout(shape=(4,), dtype="f4")
    layout[:] = h5py.VirtualSource("/etc/other.hdf5", "x", shape=(4,))
    file.create_virtual_dataset("virtual", layout)


def external(file):
    file.create_dataset("external", (4,), "f4", external=[("/etc/passwd", 0, 16)])


def brain_float(file):
    """The 16 bits of bfloat16, which NumPy has no type for."""
    kind = h5py.h5t.IEEE_F16LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_ebias(127)
    space = h5py.h5s.create_simple((3,))
    h5py.h5d.create(file.id, b"bf", kind, space).write(
        h5py.h5s.ALL, h5py.h5s.ALL, np.arange(3, dtype="f4"), h5py.h5t.NATIVE_FLOAT
    )


def whole_numbers(file):
    file["whole"] = np.arange(3)


def other_filter(file):
    file.create_dataset("packed", data=NUMBERS, compression="lzf")


def with_checksum(file):
    file.create_dataset("packed", data=NUMBERS, fletcher32=True)


def nothing(file):
    file["nothing"] = h5py.Empty("f4")


@pytest.mark.parametrize(
    "add",
    [
        soft_link, dangling_link, link_to_itself, second_name, virtual, external,
        brain_float, whole_numbers, other_filter, with_checksum, nothing,
    ],
)  # fmt: skip
def test_what_is_not_read(write, add):
    path = write(chunks=(8, 16))
    with h5py.File(path, "r+") as file:
        add(file)
    with pytest.raises(ValueError, match=r"EL00[29]"):
        read(path)


def test_an_index_that_pyfive_does_not_read(write):
    path = write(file={"libver": "latest"}, chunks=(8, 16), maxshape=(None, None))
    with pytest.raises(ValueError, match="EL00"):
        read(path)


def test_many_pieces_that_are_not_there_take_no_memory(write):
    path = write(None, shape=(1_000_000,), dtype="f4", chunks=(1,))
    with h5py.File(path, "r+") as file:  # a file of 1 % of what the array would be
        file["more"] = np.zeros(10_000, "f4")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"EL009.*larger than its data"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_a_piece_that_unpacks_to_more_than_it_says(write):
    """Zeros pack a thousand times: the piece says 3,200 bytes, and holds 3,200,000."""
    path = write(np.zeros((8, 100), "f4"), chunks=(8, 100), compression="gzip")
    change_piece(path, bytes(3200), bytes(3_200_000))
    with pytest.raises(ValueError, match=DAMAGED):
        read(path)


@pytest.mark.parametrize("size", [399, 400, 402])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_piece_of_another_size(write, size, shuffle):
    settings = {"chunks": (1, 100), "compression": "gzip", "shuffle": shuffle}
    path = write(np.zeros((1, 100), "f4"), **settings)
    change_piece(path, bytes(400), bytes(size))
    if size == 400:
        assert not read(path).any()
        return
    with pytest.raises(ValueError, match=DAMAGED):
        read(path)


def change_piece(path, old, new):
    """Replace what a packed piece holds."""
    data = path.read_bytes()
    at = data.index(zlib.compress(old, 4)[:8])
    packed = zlib.compress(new, 9)
    path.write_bytes(data[:at] + packed + data[at + len(packed) :])


def test_a_file_that_is_cut_while_it_is_open(write):
    path = write()
    with open_file(path) as file:
        os.truncate(path, path.stat().st_size - 4)
        with pytest.raises(ValueError, match=DAMAGED):
            file.read("group/x")


def test_an_array_is_in_memory_once(write):
    array = np.ones(1_000_000, "f4")
    path = write(array)
    with open_file(path) as file:
        tracemalloc.start()
        try:
            assert np.array_equal(file.read("group/x"), array)
            assert tracemalloc.get_traced_memory()[1] < 1.5 * array.nbytes
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("settings", [{}, {"chunks": (8, 16), "compression": "gzip"}])
def test_any_cut_and_any_flipped_byte(write, settings):
    """Refused, or read; never of more memory than the file explains."""
    path, rng = write(**settings), random.Random(0)
    whole = path.read_bytes()
    for end in range(0, len(whole), math.ceil(len(whole) / 60)):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match="EL00"):
            read(path)
    for _ in range(300):
        data = bytearray(whole)
        data[rng.randrange(min(len(data), 4096))] ^= rng.randrange(1, 256)
        path.write_bytes(data)
        # Or it has another name.
        with contextlib.suppress(ValueError, KeyError):
            assert read(path).nbytes <= 100 * len(whole)
