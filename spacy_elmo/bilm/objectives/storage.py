"""The file of an objective, `softmax.safetensors`, beside the weights of a biLM.

It holds the state dict. The header of the file has JSON with name, settings and a
checksum. Checkpoints of the trainer have the same format.
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

from ...errors import Errors
from ...files import add_entry, check_entry, reading
from ...registry import registry
from ..arrays import check_arrays
from .objective import Objective

FILE = "softmax.safetensors"
_HEADER = "objective"


def save(objective: Objective, path: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write an objective to a file, with floating-point arrays in a dtype."""
    arrays = {
        name: tensor.to(
            "cpu", dtype if tensor.is_floating_point() else None
        ).contiguous()
        for name, tensor in objective.state_dict().items()
    }
    header = {"name": objective.name, "settings": objective.settings()}
    write_with_checksum(path, arrays, _HEADER, header)


def load(path: Path, width: int, n_words: int) -> Objective:
    """Read an objective.

    Args:
        path: The file.
        width: Size of the vectors that are predicted from, H.
        n_words: Size of the vocabulary, V.

    Raises:
        ValueError: [EL002] The file is damaged, its objective is not registered, or has
            other settings. Also as `check_arrays`.
    """
    with reading(path, Errors.EL002, format="an objective"):
        header, arrays = read_with_checksum(path, _HEADER)
        if "name" not in header:
            raise ValueError("it does not name its objective")
        make = registry.objectives.get(header["name"])(**header["settings"])
        with torch.device("meta"):  # shapes, but no memory yet
            expected = make(width, n_words).state_dict()
    check_arrays(path, arrays, expected)
    objective: Objective = make(width, n_words)
    objective.load_state_dict(arrays)
    return objective


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


def write_safetensors(
    path: Path, arrays: dict[str, Tensor], header: dict[str, str] | None = None
) -> None:
    """Write arrays in the format of safetensors. Its own `save_file` makes a file that
    only the owner can read, and raises no OSError if the disk is full."""
    path.write_bytes(serialize(arrays, header))
