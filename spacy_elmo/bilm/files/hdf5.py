"""Reading HDF5 files of unknown origin: shapes and storage are checked before any array
is read."""

from pathlib import Path

import h5py

from ...errors import Errors

# How many times its file a compressed array may be; floats hardly shrink.
MAX_COMPRESSION = 100


def open_file(path: Path) -> h5py.File:
    """Open an HDF5 file to read. Raises ValueError [EL004]."""
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise ValueError(Errors.EL004.format(path=path, error=error)) from error


def array_shapes(file: h5py.File, path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all arrays, none of them read.

    Raises:
        ValueError: [EL004] if the file is damaged; [EL009] on links and external or
            virtual storage, which could reach other files of this machine, and on
            arrays that the file does not really hold, which would take memory.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    most_bytes = MAX_COMPRESSION * path.stat().st_size
    seen = set()  # groups can hold one another

    def walk(group: h5py.Group, prefix: str) -> None:
        for key in group:
            name = prefix + key
            if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                raise ValueError(
                    Errors.EL009.format(name=name, path=path, problem="a link")
                )
            item = group[key]
            if isinstance(item, h5py.Group):
                address = h5py.h5o.get_info(item.id).addr
                if address not in seen:
                    seen.add(address)
                    walk(item, name + "/")
            elif isinstance(item, h5py.Dataset):
                problem = None
                if item.shape is None:
                    problem = "empty"
                elif item.external or item.is_virtual:
                    problem = "stored in another file"
                elif item.nbytes > (
                    item.id.get_storage_size() if not item.compression else most_bytes
                ):
                    problem = "larger than what the file holds of it"
                elif item.dtype.kind != "f":
                    problem = f"of type {item.dtype}"
                if problem:
                    raise ValueError(
                        Errors.EL009.format(name=name, path=path, problem=problem)
                    )
                shapes[name] = tuple(item.shape)

    try:
        walk(file, "")
    except (OSError, RuntimeError, KeyError) as error:
        raise ValueError(Errors.EL004.format(path=path, error=error)) from error
    return shapes
