"""Writing HDF5 so that a full disk is an error: h5py ends the process instead."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VERSIONS = ("v108", "v110")  # attributes of any size, and files that old code reads


class _File(io.FileIO):
    """A file that writes whole buffers, and remembers its first error."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all bytes of a buffer. Raises OSError."""
        left = memoryview(data)
        try:
            while left:
                left = left[super().write(left) :]
        except OSError as error:
            self.error = self.error or error
            raise
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        """Set the size of the file. Raises OSError."""
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            raise


@contextmanager
def create_hdf5(path: Path) -> Iterator[Any]:
    """Yield a new HDF5 file, an `h5py.File`, and write it at the end.

    Raises:
        OSError: It exists, or can't be written.
    """
    import h5py

    with _File(path, "x+") as raw:
        try:
            with h5py.File(raw, "w", libver=VERSIONS) as file:
                yield file
        except Exception as error:  # HDF5 hides the error of the disk in its own
            if raw.error is not None:
                raise raw.error from error
            raise
