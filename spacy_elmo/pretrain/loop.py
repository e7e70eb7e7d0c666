"""The training loop, and one step of it. START READING HERE for the trainer.

    corpora.py -> text/streams.py -> train_step -> checkpoint.py, loggers.py, results.py

Every process of workers.py runs this loop; the first one writes the files.
"""

import json
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from signal import SIGTERM
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from ..bilm import BiLMState
from ..bilm.kernels import (
    check_training_precision,
    choose_training_matmul,
    multiply_by,
)
from ..bilm.weights import FILES, folder_of
from ..bilm.weights import read_config as read_sizes
from ..errors import Errors
from ..files import held, named_path, recover
from ..models import find
from ..output import Messages
from ..processes import StopSignals
from ..text import Batch, read_ahead
from . import checkpoint
from .checkpoint import identity, read_saved, resume_run, save_run
from .config import PretrainConfig, TrainingConfig
from .corpora import DEV, TRAIN, open_corpora, replace_text
from .evaluation import perplexity
from .loggers import Log
from .memory import gigabytes
from .model import LanguageModel, on_device
from .optimizers import clip_gradients, set_learn_rate
from .results import BEST, LAST, finish, measure, save_models, show
from .start import Figures, Run, softmax_folder
from .workers import ALONE, Workers, joined, torch_settings


class Stopped(Exception):
    """A run was asked to stop, and has saved what it needs to resume."""

    def __init__(self, signal_number: int, step: int, n_steps: int) -> None:
        self.signal_number = signal_number
        super().__init__(
            f"Stopped after step {step:,} of {n_steps:,}, and saved. The same "
            "command, without --force, resumes it."
        )


def pretrain(
    config: PretrainConfig, output: Path, *, command: str = "", overwrite: bool = False
) -> Path:
    """Train a biLM, or resume a run that was stopped or killed.

    Writes `model-best`, `model-last`, `log.jsonl` and `checkpoint.safetensors` below
    the output folder.

    Args:
        config: All settings.
        output: Folder of the run.
        command: How the run was started, for the model card.
        overwrite: Whether to start from scratch where there is another run already.

    Returns:
        The folder of the best model, by mean perplexity of the dev text.

    Raises:
        ValueError: [EL037, EL048] A setting does not fit the machine; [EL038] the loss
            is not finite any more; [EL124] another process trains there; [EL125] other
            processes would train another model; also as `open_corpora`, `read_saved`
            and `Run`.
        OSError: [EL013] A file can't be written; also as `open_corpora`.
        ImportError: [EL049] TensorBoard is asked for and not installed.
        MemoryError: [EL076] The GPU has no memory left.
        Stopped: The run was asked to stop, and has saved what it needs to resume.
    """
    training, output = config.training, named_path(output).absolute()
    with ExitStack() as scope:
        workers = scope.enter_context(joined(training.device))
        scope.enter_context(torch_settings(training, workers.device))
        check_training_precision(training.precision, workers.device)
        if workers.is_first:
            scope.enter_context(held(output))
        _prepare_output(output, training, workers)
        corpora, hashes = open_corpora(config, output, workers, overwrite=overwrite)
        depends_on = identity(config, hashes)
        saved = None if overwrite else read_saved(output, depends_on, workers)
        before = (saved or {}).get("matmul")  # None in checkpoints of old versions
        matmul = choose_training_matmul(workers.device.type, before)
        scope.enter_context(multiply_by(matmul))
        run = Run(config, output, workers, corpora, depends_on, matmul, command)
        _check_processes(run)
        if saved is not None:
            resume_run(run, saved)
        log = Log(run) if workers.is_first else None
        msg = Messages(no_print=not workers.is_first)
        _announce(run, msg)
        if saved is not None:
            msg.info(f"Resuming at step {run.step:,} of {run.n_steps:,}")
        stop = scope.enter_context(StopSignals())
        if log is not None:
            if overwrite:  # from here on nothing is refused any more
                _replace_run(output)
            scope.enter_context(log)
        if saved is None:  # so that models never stand there without one
            save_run(run)
        try:
            _train(run, log, stop)
        except torch.cuda.OutOfMemoryError as error:
            raise Errors.EL076() from error
        if workers.is_first:
            finish(run, msg)
        workers.wait()
    return output / BEST


def _prepare_output(output: Path, training: TrainingConfig, workers: Workers) -> None:
    """Create the folder of a run, and remove the unfinished files of a killed process.

    Raises:
        ValueError: [EL037] The run would overwrite the model that it starts from. Also
            as `weights.read_config` of that model, before any text is read.
    """
    folders, init = (output, output / BEST, output / LAST), training.init_path
    start = None if init is None else folder_of(init).resolve()
    if start in [folder.resolve() for folder in folders[1:]]:
        named = training.init
        problem = f"the run would overwrite its init, {named!r}; choose another output"
        raise Errors.EL037(path="training", problem=problem)
    if init is not None:
        read_sizes(find(init))
    if workers.is_first:
        for folder in folders:
            recover(folder)
    workers.wait()


def _check_processes(run: Run) -> None:
    """Raise ValueError [EL125] unless all processes would train the same model."""
    weights = run.model.bilm.fingerprint() if run.workers.size > 1 else ""
    what = [run.depends_on, run.vocabulary, run.n_steps, weights]
    if not run.workers.agree(json.dumps(what, sort_keys=True)):
        raise Errors.EL125()


def _replace_run(output: Path) -> None:
    """Remove the files of another run, and keep the text of this one."""
    models = [output / name / file for name in (BEST, LAST) for file in FILES]
    for path in (output / checkpoint.FILE, *models):
        path.unlink(missing_ok=True)
    replace_text(output)


def _announce(run: Run, msg: Messages) -> None:
    """Say what will be trained, on what, and for how long."""
    text, dev, softmax = run.corpora[TRAIN], run.corpora[DEV], run.model.softmax
    n_softmax = sum(p.numel() for p in softmax.parameters())
    B, T = run.config.training.batch_size, run.config.training.unroll_steps
    msg.info(
        f"{text.n_tokens:,} tokens, vocabulary of {len(text.vocab):,} words "
        f"({text.coverage:.1%} of the text); dev text {dev.n_tokens:,} tokens "
        f"({dev.coverage:.1%} known)"
    )
    msg.info(
        f"{run.model.bilm.n_parameters:,} parameters in the biLM, {n_softmax:,} in the "
        f"{softmax.describe()}"
    )
    msg.info(
        f"{run.n_steps:,} steps of {B} x {T} tokens on {run.workers.size} x "
        f"{run.workers.device}, about {gigabytes(run.memory)} of memory each"
    )


def _train(run: Run, log: Log | None, stop: StopSignals) -> None:
    """Make all steps that are left. Raises Stopped if asked to."""
    training, workers = run.config.training, run.workers
    # The step after which the biLM itself is trained.
    begins = 0 if softmax_folder(training) else training.softmax_first or None
    run.model.train()
    if run.step == begins == 0:
        _measure_before(run, log)

    def batches(step: int) -> list[Batch[np.ndarray]]:
        return [part.batch(step % run.steps_per_epoch) for part in run.streams]

    for parts in read_ahead(batches, range(run.step, run.n_steps)):
        if run.step % run.steps_per_epoch == 0:
            run.states = run.zero_states()
        factor = float(run.schedule(run.step, run.n_steps))
        learn_rate = set_learn_rate(run.optimizers, factor)
        figures, norm = train_step(
            run.model,
            run.optimizers,
            parts,
            run.states,
            training,
            step=run.step,
            workers=workers,
        )
        run.recent += figures
        run.step += 1
        asked = any(workers.sum([bool(stop.asked)]))
        at_end = run.step == run.n_steps
        evaluates = at_end or run.step % training.eval_every == 0
        logs = evaluates or run.step % training.log_every == 0
        saves = evaluates or asked or run.step % training.save_every == 0
        if log is not None:
            log.step()
        if logs or saves:
            total, n = workers.sum(run.recent.tolist())
            run.loss = total / n if n else run.loss
            # Before anything is written of a broken model. The losses are from before
            # the last update, which a broken gradient spoils.
            _check_finite(run, run.loss, float(norm))
        if run.step == begins:
            _measure_before(run, log)
        if logs:
            if log is not None:
                _write_row(run, log, learn_rate, float(norm), evaluates)
            run.recent.zero_()
            workers.wait()
        if saves:
            save_run(run)
        if asked and not at_end:
            raise Stopped(stop.asked or SIGTERM, run.step, run.n_steps)


def train_step(
    model: LanguageModel,
    optimizers: Sequence[Optimizer],
    batches: Sequence[Batch[np.ndarray]],
    states: list[BiLMState],
    training: TrainingConfig,
    *,
    step: int,
    workers: Workers = ALONE,
) -> tuple[Tensor, Tensor]:
    """Update a model from the mean loss over all targets of all processes.

    The CPU never waits for a GPU. All copies go to it, by `to_device`: words, positions
    and targets of the batch, the rows of a softmax that they use, and the rows whose
    targets are in each cluster. One exception: where sparse gradients of several parts
    are joined, the CPU waits for the number of their rows.

    Args:
        model: The model to train.
        optimizers: Its optimizers, with their learning rates set.
        batches: Next tokens of the streams of this process, in parts that are computed
            one after the other. Their gradients are added up.
        states: State of each part, which is replaced by the state after the step.
        training: Seed, precision, clip_norm and softmax_first are used.
        step: Number of the step, which the random numbers depend on.
        workers: The processes of the run.

    Returns:
        The sum of -log p over this process's targets and the number of these, (2,) in
        float64, and the global norm of the gradient before it was clipped.
    """
    # One seed for each step of each process.
    seed = training.seed * 1_000_003 + step * 8_191 + workers.rank
    torch.manual_seed(seed % (1 << 63))
    targets = [
        np.concatenate([d.target_P for d in (b.forward, b.backward)]) for b in batches
    ]
    words_P = np.concatenate(targets)
    (n_targets,) = workers.sum([len(words_P)])
    model.softmax.begin_step(training.seed, step, workers.union(words_P))
    trained = model if step >= training.softmax_first else model.softmax
    device = model.bilm.device
    figures = torch.zeros(2, dtype=torch.float64, device=device)
    figures[1] += len(words_P)
    for part, numbers in enumerate(batches):
        batch = on_device(numbers, device)
        known = model.softmax.prepare(targets[part], device)
        with torch.autocast(
            device.type, torch.bfloat16, enabled=training.precision == "bfloat16"
        ):
            with torch.set_grad_enabled(trained is model):
                top_PH, states[part] = model.read(batch, states[part])
            log_p_P = model.log_p(top_PH, batch, known)
        loss = -log_p_P.sum()
        # Gradients are averaged over processes: the result is a mean over all targets.
        is_last = part == len(batches) - 1
        with workers.averaging(trained.parameters()) if is_last else nullcontext():
            (loss * (workers.size / max(1.0, n_targets))).backward()
        figures[0] += loss.detach().double()
    norm = clip_gradients(model.parameters(), training.clip_norm)
    for optimizer in optimizers:
        optimizer.step()
        # Gradients are not read any more, and take memory.
        optimizer.zero_grad(set_to_none=True)
    return figures, norm


def _check_finite(run: Run, *figures: float) -> None:
    for figure in figures:
        if not math.isfinite(figure):
            raise Errors.EL038(loss=figure, step=run.step, output=run.output)


def _write_row(
    run: Run, log: Log, learn_rate: float, norm: float, evaluates: bool
) -> None:
    """Write a line of the log, and evaluate the model before if it is time to."""
    row: dict[str, Any] = {
        "step": run.step,
        "tokens": run.tokens,
        "seconds": round(run.seconds, 1),
        "loss": run.loss,
        "learn_rate": learn_rate,
        "tokens_per_second": round(log.speed(run.tokens)),
        "grad_norm": norm,
    }
    if evaluates:
        row["epoch"] = (run.step - 1) // run.steps_per_epoch + 1
        row["dev"] = _evaluate(run, log, row["tokens_per_second"])
    log.row(row)


def _evaluate(run: Run, log: Log, speed: int) -> Figures:
    """Measure the model on the dev text, and save it. Return its perplexities."""
    found = perplexity(run.model, run.corpora[DEV])
    _check_finite(run, found.mean)
    log.say(
        f"step {run.step:>7,}  {speed:>7,} tokens/s  "
        f"loss {run.loss:.3f}  dev perplexity {found}"
    )
    dev = found.to_dict()
    save_models(run, dev)
    return dev


def _measure_before(run: Run, log: Log | None) -> None:
    """Measure all held-out text before the biLM is trained, which counts neither as
    steps nor as their time. The model is the first candidate for the best one."""
    if log is not None:
        began = time.time()
        held_out = [name for name in run.corpora if name != TRAIN]
        before = measure(run.model, run, held_out)
        run.started += time.time() - began
        run.results.before = before
        save_models(run, before[DEV], folders=[])
        found = ", ".join(f"{name} {show(it)}" for name, it in before.items())
        log.say(f"perplexity before the biLM is trained: {found}")
        log.skip(time.time() - began)
    run.workers.wait()
