"""Arrays in files: safetensors with a checksum, and the checks of all arrays from
files: of their names, shapes, dtypes and numbers.

A header with JSON can stand in a file of safetensors. It has the checksum of itself and
of the arrays. The file of an objective and the checkpoints of the trainer are such
files.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save as serialize
from torch import Tensor

from ..errors import Errors
from ..files import add_entry, check_entry

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
Shapes = Mapping[str, tuple[int, ...]]


def shapes_of(arrays: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of arrays by name."""
    return {name: tuple(array.shape) for name, array in arrays.items()}


def check_shapes(path: str | Path, found: Shapes, expected: Shapes) -> None:
    """Compare the shapes of arrays with those that a model has. Before arrays are read,
    this bounds their memory.

    Args:
        path: The file, for messages.
        found: The shapes in the file by name.
        expected: The shapes of the model by name.

    Raises:
        ValueError: [EL006] An array is missing, or the model does not have it. [EL007]
            An array has another shape.
    """
    for name, shape in expected.items():
        if name not in found:
            raise Errors.EL006(path=path, problem=f"has no array '{name}'")
        if found[name] != shape:
            raise Errors.EL007(path=path, name=name, found=found[name], expected=shape)
    if unknown := sorted(set(found) - set(expected)):
        problem = f"has arrays that the model does not have: {', '.join(unknown[:5])}"
        raise Errors.EL006(path=path, problem=problem)


def check_arrays(
    path: str | Path, found: Mapping[str, Tensor], expected: Mapping[str, Tensor]
) -> None:
    """Compare arrays with those that a model has. Floating-point numbers may have any
    precision, if they are finite in that of the model.

    Args:
        path: The file, for messages.
        found: The arrays in the file by name.
        expected: The arrays of the model by name, perhaps on the meta device, where
            they take no memory.

    Raises:
        ValueError: [EL008] An array has NaN or infinity, [EL009] or another dtype. Also
            as `check_shapes`.
    """
    check_shapes(path, shapes_of(found), shapes_of(expected))
    for name, array in found.items():
        model = expected[name]
        if array.dtype not in (FLOATS if model.is_floating_point() else (model.dtype,)):
            raise Errors.EL009(path=path, name=name, problem=f"of type {array.dtype}")
        if not torch.isfinite(array.to(model.dtype)).all():
            raise Errors.EL008(path=path, name=name)


# -- safetensors ------------------------------------------------------------------


def write_safetensors(
    path: Path, arrays: dict[str, Tensor], header: dict[str, str] | None = None
) -> None:
    """Write arrays in the format of safetensors. Its own `save_file` makes a file that
    only the owner can read, and raises no OSError if the disk is full."""
    path.write_bytes(serialize(arrays, header))


def write_with_checksum(
    path: Path, arrays: dict[str, Tensor], name: str, header: Mapping[str, Any]
) -> None:
    """Write arrays with a header and a checksum of both.

    Args:
        path: The file.
        arrays: The arrays by name.
        name: Name of the header.
        header: The header, in types that JSON has.
    """
    sealed = add_entry(header, partial(_checksum, arrays=arrays))
    write_safetensors(path, arrays, {name: json.dumps(sealed)})


def read_with_checksum(
    path: Path, name: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the header of a file, empty if there is none, and its arrays.

    Raises:
        ValueError: The file was changed after it was written.

    Warns:
        UserWarning: [ELW52] The file has no checksum.
    """
    with safe_open(path, framework="pt") as file:
        header = read_header(file, name)
        # Copies, since safetensors returns memory that is mapped to the file.
        arrays = {k: file.get_tensor(k).clone() for k in file.keys()}  # noqa: SIM118
    return check_entry(header, partial(_checksum, arrays=arrays), path), arrays


def read_header(file: Any, name: str) -> dict[str, Any]:
    """Return the header of an open file. Its checksum is not compared."""
    metadata = file.metadata() or {name: "{}"}
    header = dict(json.loads(metadata[name]))
    if metadata != {name: json.dumps(header)}:
        raise ValueError("its header was changed after it was written")
    return header


def _checksum(header: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, tensor in sorted(arrays.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
