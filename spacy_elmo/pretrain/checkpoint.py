"""The checkpoint of a run: everything that it needs to resume exactly.

It is one safetensors file, so that it is either whole or not there. It holds the
weights, the state of the optimizers and the carried state of every stream. JSON in its
header holds the step, the losses and the settings that the run depends on. Random
numbers are not in it, since each step seeds its own by its number. Positions of the
streams are not, since they follow from the step.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

from safetensors import safe_open
from torch import Tensor
from torch.optim import Optimizer

from ..bilm import BiLMState, LstmState
from ..bilm.objectives import read_header, read_with_checksum, write_with_checksum
from ..errors import Errors
from ..files import reading, write_files
from .model import LanguageModel

FILE = "checkpoint.safetensors"
FORMAT_VERSION = 3
_HEADER = "checkpoint"
# Entries that progress always has, with their types.
PROGRESS: dict[str, Any] = {
    "step": int,
    "n_steps": int,
    "identity": dict,
    "seconds": (int, float),
    "recent": list,
    "results": dict,
}

Arrays = dict[str, Tensor]


def save(
    folder: Path,
    model: LanguageModel,
    optimizers: Sequence[Optimizer],
    state: BiLMState,
    progress: dict[str, Any],
) -> None:
    """Write the checkpoint of a run.

    Args:
        folder: Folder of the run.
        model: Its model.
        optimizers: Its optimizers.
        state: Carried state of all streams.
        progress: Everything else to restore, as JSON can hold it.

    Raises:
        OSError: [EL013] It can't be written.
        ValueError: [EL120] The state of an optimizer can't be saved.
    """
    arrays: Arrays = {f"model.{k}": v for k, v in model.state_dict().items()}
    for direction, part in zip(("forward", "backward"), state):
        arrays |= {f"state.{direction}.h": part.h, f"state.{direction}.c": part.c}
    try:
        states = [
            flatten(optimizer.state_dict(), f"optimizer.{i}", arrays)
            for i, optimizer in enumerate(optimizers)
        ]
    except TypeError as error:
        raise Errors.EL120(problem=error) from error
    arrays = _apart({k: v.detach().cpu().contiguous() for k, v in arrays.items()})
    header = {"format": FORMAT_VERSION, "progress": progress, "optimizers": states}
    write = partial(write_with_checksum, arrays=arrays, name=_HEADER, header=header)
    write_files(folder, {FILE: write})


def read_progress(folder: Path) -> dict[str, Any] | None:
    """Return the progress in a checkpoint; None if there is no checkpoint. Raises
    ValueError [EL046] if it can't be read."""
    path = folder / FILE
    if not path.exists():
        return None
    with reading(path, Errors.EL046), safe_open(path, framework="pt") as file:
        progress = dict(_of_known_format(read_header(file, _HEADER))["progress"])
        for name, kind in PROGRESS.items():
            if not isinstance(progress.get(name), kind):
                raise ValueError(f"its progress has no {name!r}")
        return progress


def load(
    folder: Path, model: LanguageModel, optimizers: Sequence[Optimizer]
) -> BiLMState:
    """Restore a model and its optimizers. Return the carried state of all streams.
    Raises ValueError [EL046] if the file is damaged or of another model."""
    path = folder / FILE
    with reading(path, Errors.EL046):
        header, arrays = read_with_checksum(path, _HEADER)
        states = _of_known_format(header)["optimizers"]
        weights = (name for name in arrays if name.startswith("model."))
        model.load_state_dict({n.removeprefix("model."): arrays[n] for n in weights})
        for optimizer, state in zip(optimizers, states, strict=True):
            optimizer.load_state_dict(unflatten(state, arrays))
        forward, backward = (
            LstmState(*(arrays[f"state.{name}.{x}"] for x in "hc"))
            for name in ("forward", "backward")
        )
    device = model.bilm.device
    return BiLMState(forward, backward).map(lambda part: part.to(device))


def _of_known_format(header: dict[str, Any]) -> dict[str, Any]:
    if header["format"] != FORMAT_VERSION:
        raise ValueError(f"format {header['format']!r} is not known here")
    return header


def flatten(value: Any, name: str, arrays: Arrays) -> Any:
    """Move the tensors of nested dicts, lists and tuples into `arrays`, by names that
    begin with `name`. Return the rest for JSON. Raises TypeError on other types."""
    if isinstance(value, Tensor):
        name = name if name not in arrays else f"{name}.{len(arrays)}"
        arrays[name] = value
        return {"tensor": name}
    if isinstance(value, dict):
        if odd := [k for k in value if not isinstance(k, (int, float, str, NoneType))]:
            raise TypeError(f"{name} has a key of type {type(odd[0]).__name__}")
        items = [[k, flatten(v, f"{name}.{k}", arrays)] for k, v in value.items()]
        return {"dict": items}
    if isinstance(value, (list, tuple)):
        parts = [flatten(v, f"{name}.{i}", arrays) for i, v in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": parts}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{name} is of type {type(value).__name__}")


def unflatten(value: Any, arrays: Arrays) -> Any:
    """Undo `flatten`: return the nested value with its tensors."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return arrays[content]
    if kind == "dict":
        return {key: unflatten(item, arrays) for key, item in content}
    parts = [unflatten(item, arrays) for item in content]
    return tuple(parts) if kind == "tuple" else parts


def _apart(arrays: Arrays) -> Arrays:
    """Return arrays of which no two share memory: safetensors does not write those."""
    known: set[int] = set()
    for name, array in arrays.items():
        start = array.untyped_storage().data_ptr()
        if array.nbytes and start in known:
            arrays[name] = array.clone()
        known.add(start)
    return arrays
