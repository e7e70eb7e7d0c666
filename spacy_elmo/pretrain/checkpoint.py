"""A training run, stopped: everything that it needs to go on exactly as it would have.

One safetensors file, so that it is whole or not there: weights, optimizer, carried
state of every stream, and, as JSON in its header, the step, the loss history and what
the run is of. Random numbers need no place in it: each step draws its own, from the
seed and its number. Neither do the streams: their position is the step.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialize
from torch import Tensor
from torch.optim import Optimizer

from ..atomic_files import write_files
from ..bilm.lstm import LstmState
from ..errors import Errors
from .model import LanguageModel, State

FILE = "checkpoint.safetensors"
FORMAT_VERSION = 2


def save(
    folder: Path,
    model: LanguageModel,
    optimizers: list[Optimizer],
    state: State,
    progress: dict[str, Any],
) -> None:
    """state: of all streams. progress: whatever JSON holds. Raises OSError [EL013]."""
    arrays = {f"model.{k}": v for k, v in model.state_dict().items()}
    for i, optimizer in enumerate(optimizers):
        for j, parameter in enumerate(_parameters(optimizer)):
            for name, value in optimizer.state[parameter].items():
                arrays[f"optimizer.{i}.{j}.{name}"] = torch.as_tensor(value)
    for direction, part in zip(("forward", "backward"), state):
        arrays |= {f"state.{direction}.h": part.h, f"state.{direction}.c": part.c}
    arrays = {k: v.detach().cpu().contiguous() for k, v in arrays.items()}
    header = {"format": FORMAT_VERSION, "progress": progress}
    text = json.dumps(header)
    write_files(folder, {FILE: partial(_write, arrays=arrays, text=text)})


def _write(path: Path, *, arrays: dict[str, Tensor], text: str) -> None:
    path.write_bytes(serialize(arrays, {"checkpoint": text}))


def read_progress(folder: Path) -> dict[str, Any] | None:
    """What was saved as progress; None if there is no checkpoint.

    Raises ValueError [EL046] if it can't be read.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})["checkpoint"])
        if header["format"] != FORMAT_VERSION:
            raise ValueError(f"format {header['format']!r} is not known here")
        return dict(header["progress"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(Errors.EL046.format(path=path, error=error)) from error


def load(folder: Path, model: LanguageModel, optimizers: list[Optimizer]) -> State:
    """Fill a model and its optimizers. RETURNS: the state of all streams.

    Raises ValueError [EL046] if the file is damaged or of another model.
    """
    path = folder / FILE
    device = model.bilm.device
    try:
        with safe_open(path, framework="pt") as file:
            names = set(file.keys())
            weights = {
                name: file.get_tensor(f"model.{name}") for name in model.state_dict()
            }
            model.load_state_dict(weights)
            for i, optimizer in enumerate(optimizers):
                for j, parameter in enumerate(_parameters(optimizer)):
                    prefix = f"optimizer.{i}.{j}."
                    found = {
                        name.removeprefix(prefix): file.get_tensor(name)
                        for name in sorted(names)
                        if name.startswith(prefix)
                    }
                    fused = bool(optimizer.defaults.get("fused"))
                    optimizer.state[parameter] = _optimizer_state(
                        found, parameter.device, fused
                    )
            forward, backward = (
                LstmState(
                    file.get_tensor(f"state.{direction}.h").to(device),
                    file.get_tensor(f"state.{direction}.c").to(device),
                )
                for direction in ("forward", "backward")
            )
    except (SafetensorError, OSError, RuntimeError) as error:
        raise ValueError(Errors.EL046.format(path=path, error=error)) from error
    return forward, backward


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _optimizer_state(
    found: dict[str, Tensor], device: torch.device, fused: bool
) -> dict[str, Any]:
    """As the optimizer keeps it: averages beside the parameter, the count of steps as a
    number (sparse), or on the CPU (dense) unless the optimizer is a fused one."""
    # Copies: what safetensors gives is the file itself, mapped into memory.
    state: dict[str, Any] = {
        name: value.to(device, copy=True) for name, value in found.items()
    }
    step = found.get("step")
    if step is not None and not fused:
        state["step"] = int(step) if step.dtype == torch.int64 else step.clone()
    return state
