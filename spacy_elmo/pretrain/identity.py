"""Whether a checkpoint is of this run: the same settings and the same text."""

import json
from pathlib import Path
from typing import Any

from ..errors import Errors
from . import checkpoint
from .config import PretrainConfig
from .results import refuse_models
from .start import Run
from .workers import Workers

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
    # `_check_schedule` looks at what they mean.
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
        now: What the run depends on, as of `identity`.
        workers: Its processes.

    Raises:
        ValueError: [EL018] Not all processes see it; [EL046] it can't be read; [EL047]
            it is of another run, or there are models without it.
    """
    saved = checkpoint.read_progress(output)
    if not workers.agree(saved["step"] if saved else 0):
        raise Errors.EL018(path=output)
    if saved is None:
        refuse_models(output)
    else:
        check_same(output, saved["identity"], now)
    return saved


def check_processes(run: Run) -> None:
    """Raise ValueError [EL125] unless all processes would train the same model."""
    several = run.workers.size > 1
    weights = run.model.bilm.fingerprint() if several else ""
    what = [run.depends_on, run.vocabulary, run.n_steps, weights]
    if not run.workers.agree(json.dumps(what, sort_keys=True)):
        raise Errors.EL125()


def check_resumable(run: Run, saved: dict[str, Any]) -> None:
    """Raise ValueError [EL047] if a run can't go on from the progress of a checkpoint:
    no step is left, earlier steps would have had other learning rates, or the words or
    the first weights are others."""
    step, before, now = saved["step"], saved["n_steps"], run.n_steps
    if step > now or step == now < before:
        differs = f"it has made {step:,} steps and has none left of {now:,}"
        raise Errors.EL047(path=run.output, differs=differs)
    _check_schedule(run, step, before)
    source = f"'{run.config.training.init}'" if run.init else "the text"
    if saved.get("vocabulary", run.vocabulary) != run.vocabulary:
        differs = f"{source} has another vocabulary now"
        raise Errors.EL047(path=run.output, differs=differs)
    if saved.get("init", run.init) != run.init:
        raise Errors.EL047(path=run.output, differs=f"{source} has other weights now")


def check_same(output: Path, saved: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise ValueError [EL047], naming what differs, unless two runs are the same."""
    now = json.loads(json.dumps(now))  # with lists for tuples, as it was saved
    differs = [
        name
        if name.startswith("text of ")
        else f"{name} was {before!r} and is {after!r}"
        for name in sorted({*saved, *now} - FREE)
        if (before := saved.get(name)) != (after := now.get(name))
    ]
    if differs:
        raise Errors.EL047(path=output, differs="; ".join(differs))


def _check_schedule(run: Run, step: int, before: int) -> None:
    """Raise ValueError [EL047] unless the steps that a run has made keep their learning
    rates, though its number of steps was another before."""
    schedule, now = run.schedule, run.n_steps
    if any(schedule(n, before) != schedule(n, now) for n in range(step)):
        differs = (
            f"it was to make {before:,} steps and is to make {now:,}, with which its "
            "learning rate would have been another (it would not with the schedule "
            "spacy-elmo.WarmupStableDecay.v1 before it falls, if warmup_steps are at "
            "most a tenth of both)"
        )
        raise Errors.EL047(path=run.output, differs=differs)
