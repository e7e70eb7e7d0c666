"""The checks of arrays from files: their names, shapes, dtypes and numbers."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from ..errors import Errors

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
