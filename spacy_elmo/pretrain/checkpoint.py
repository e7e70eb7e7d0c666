"""The checkpoint of a run: everything that it needs to resume exactly.

It is one safetensors file, so that it is either whole or not there. It holds the
weights, the state of the optimizers and the carried state of every stream. JSON in its
header holds the step, the losses and the settings that the run depends on. Random
numbers are not in it, since each step seeds its own by its number. Positions of the
streams are not, since they follow from the step.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

from pydantic import TypeAdapter
from safetensors import safe_open
from torch import Tensor
from torch.optim import Optimizer

from ..bilm import (
    BiLMState,
    LstmState,
    read_header,
    read_with_checksum,
    write_with_checksum,
)
from ..errors import Errors
from ..files import parsing, reading, write_files
from .config import PretrainConfig
from .model import LanguageModel
from .results import BEST, LAST
from .start import Results, Run
from .workers import Workers

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
_RESULTS = TypeAdapter(Results)
# Sum of the losses since the last line of the log, and number of their targets.
_RECENT = TypeAdapter(tuple[float, float])


# Settings that may change when a run resumes. Weights don't depend on them, but for the
# rounding and order of sums and, with dropout, the order of random numbers.
FREE = {
    "training.accumulate",
    "training.device",
    "training.precision",
    "training.threads",
    "training.log_every",
    "training.save_every",
    "training.eval_every",
    "training.tensorboard",
    "training.save_dtype",
    "training.logger",
    # `_check_resumable` looks at what they mean.
    "training.epochs",
    "training.max_steps",
}


def identity(config: PretrainConfig, text_hashes: dict[str, str]) -> dict[str, Any]:
    """Return all settings that the weights of a run depend on, by name. Hashes of the
    corpora stand for the section [text]."""
    settings = config.to_dict()
    named: dict[str, Any] = {}
    for section in ("vocab", "model", "training"):
        for name, value in (settings[section] or {}).items():
            named[f"{section}.{name}"] = value
    named |= {f"training.{block}": values for block, values in config.blocks.items()}
    for name in ("max_tokens", "dev_max_tokens"):
        named[f"text.{name}"] = settings["text"][name]
    named |= {f"text of {name}": found for name, found in text_hashes.items()}
    return {name: value for name, value in named.items() if name not in FREE}


def read_saved(
    output: Path, now: dict[str, Any], workers: Workers
) -> dict[str, Any] | None:
    """Return the progress of the run to resume; None if there is none.

    Args:
        output: Folder of the run.
        now: What the run depends on, from `identity`.
        workers: Its processes.

    Raises:
        ValueError: [EL018] Not all processes see it; [EL046] it can't be read; [EL047]
            it is of another run, or there are models without it.
    """
    saved = read_progress(output)
    if not workers.agree(saved["step"] if saved else 0):
        raise Errors.EL018(path=output)
    if saved is None:
        for folder in (output / BEST, output / LAST):  # which belong to no known run
            if folder.is_dir() and any(folder.iterdir()):
                differs = f"there is a '{folder.name}', and no checkpoint"
                raise Errors.EL047(path=output, differs=differs)
        return None
    now = json.loads(json.dumps(now))  # with lists for tuples, as it was saved
    before = saved["identity"]
    differ = [
        n
        if n.startswith("text of ")
        else f"{n} was {before.get(n)!r} and is {now.get(n)!r}"
        for n in sorted({*before, *now} - FREE)
        if before.get(n) != now.get(n)
    ]
    if differ:
        raise Errors.EL047(path=output, differs="; ".join(differ))
    return saved


def save_run(run: Run) -> None:
    """Write the checkpoint of a run. All processes call this, and the first one writes.
    Raises as `save`."""
    state = run.workers.gather(BiLMState.join(run.states))
    recent = run.workers.sum(run.recent.tolist())
    if run.workers.is_first:
        progress = {
            "identity": run.depends_on,
            "vocabulary": run.vocabulary,
            "init": run.init,
            "matmul": run.matmul,
            "step": run.step,
            "n_steps": run.n_steps,
            "seconds": run.seconds,
            "recent": recent,
            "results": asdict(run.results),
        }
        save(run.output, run.model, run.optimizers, state, progress)
    run.workers.wait()


def resume_run(run: Run, saved: dict[str, Any]) -> None:
    """Bring a new run to where its checkpoint is.

    Args:
        run: The run, before its first step.
        saved: Progress in the checkpoint, from `read_saved`.

    Raises:
        ValueError: [EL046] The checkpoint can't be read; [EL047] it is of another run.
    """
    _check_resumable(run, saved)
    state = load(run.output, run.model, run.optimizers)
    run.states = [
        state.rows(slice(part.rows.start, part.rows.stop)) for part in run.streams
    ]
    run.step, run.started = saved["step"], run.started - saved["seconds"]
    (now,) = run.results.commands
    with parsing(Errors.EL046, run.output / FILE):
        recent = _RECENT.validate_python(saved["recent"])
        run.results = _RESULTS.validate_python(saved["results"])
        is_same = run.results.commands[-1]["command"] == now["command"]
    if run.workers.is_first:  # the sums over all processes
        run.recent += run.recent.new_tensor(recent)
    if not is_same:
        run.results.commands.append({**now, "step": run.step})


def _check_resumable(run: Run, saved: dict[str, Any]) -> None:
    """Raise ValueError [EL047] if a run can't go on from the progress of a checkpoint.

    Then no step is left, earlier steps would have had other learning rates, or the
    words or the first weights are others.
    """
    step, before, now = saved["step"], saved["n_steps"], run.n_steps
    source = f"'{run.config.training.init}'" if run.init else "the text"
    if step > now or step == now < before:
        differs = f"it has made {step:,} steps and has none left of {now:,}"
    elif any(run.schedule(n, before) != run.schedule(n, now) for n in range(step)):
        differs = (
            f"it was to make {before:,} steps and is to make {now:,}, with which its "
            "learning rate would have been another (it would not with the schedule "
            "spacy-elmo.WarmupStableDecay.v1 before it falls, if warmup_steps are at "
            "most a tenth of both)"
        )
    elif saved.get("vocabulary", run.vocabulary) != run.vocabulary:
        differs = f"{source} has another vocabulary now"
    elif saved.get("init", run.init) != run.init:
        differs = f"{source} has other weights now"
    else:
        return
    raise Errors.EL047(path=run.output, differs=differs)


# -- the file -----------------------------------------------------------------------


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
        # Old versions wrote no "matmul".
        for name, kind in {**PROGRESS, "matmul": (str, NoneType)}.items():
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
