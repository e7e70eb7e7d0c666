"""Writing HDF5 so that a full disk is an error: h5py ends the process instead."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VERSIONS = ("v108", "v110")  # attributes of any size, and files that old code reads


@contextmanager
def create_hdf5(path: Path) -> Iterator[Any]:
    """Yield a new HDF5 file, an `h5py.File`, and write it at the end.

    Raises:
        OSError: It exists, or can't be written.
    """
    import h5py

    with path.open("x+b") as raw:
        try:
            with h5py.File(raw, "w", libver=VERSIONS) as file:
                yield file
        except Exception:
            raw.flush()  # raises the error of the disk, which HDF5 hides in its own
            raise
