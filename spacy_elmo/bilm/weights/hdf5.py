"""Reading HDF5 files of unknown origin: shapes and storage are checked before any array
is read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from ...errors import Errors
from ...files import reading

# How many times its file a compressed array may be; floats hardly shrink.
MAX_COMPRESSION = 100


@contextmanager
def open_file(path: Path) -> Iterator[h5py.File]:
    """Open an HDF5 file to read. Raises ValueError [EL002], for whatever fails while it
    is open."""
    with reading(path, Errors.EL002, format="HDF5"), h5py.File(path, "r") as file:
        yield file


def array_shapes(file: h5py.File, path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all arrays, none of them read.

    Raises:
        ValueError: [EL009] on links and external or virtual storage, which could reach
            other files of this machine, and on arrays that the file does not really
            hold, which would take memory.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    most_bytes = MAX_COMPRESSION * path.stat().st_size  # of all that are compressed
    for name, item in _walk(file, "", set()):
        if problem := _problem(item, most_bytes):
            message = Errors.EL009.format(name=name, path=path, problem=problem)
            raise ValueError(message)
        shapes[name] = tuple(item.shape)
        most_bytes -= item.nbytes if item.compression else 0
    return shapes


def _walk(group: h5py.Group, prefix: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of a group and of those inside, None for each link. `seen` has
    the addresses of groups, which can hold one another, and of arrays, of which a
    second name is a link."""
    for key in group:
        name = prefix + key
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            yield name, None
            continue
        item = group[key]
        address = h5py.h5o.get_info(item.id).addr
        is_known = address in seen
        seen.add(address)
        if isinstance(item, h5py.Dataset):
            yield name, None if is_known else item
        elif isinstance(item, h5py.Group) and not is_known:
            yield from _walk(item, name + "/", seen)


def _problem(item: Any, most_bytes: int) -> str | None:
    """Return why an array is not read, None if it can be."""
    if item is None:
        return "a link"
    if item.shape is None:
        return "empty"
    if item.external or item.is_virtual:
        return "stored in another file"
    held = most_bytes if item.compression else item.id.get_storage_size()
    if item.nbytes > held:
        return "larger than what the file holds of it"
    return None if item.dtype.kind == "f" else f"of type {item.dtype}"
