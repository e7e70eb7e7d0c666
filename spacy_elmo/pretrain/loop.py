"""The training loop. START READING HERE for the trainer.

    corpora.py -> text/streams.py -> step.py -> checkpoint.py, loggers.py, results.py

Every process of workers.py runs this loop; the first one writes the files.
"""

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from signal import SIGTERM
from typing import Any

import numpy as np
import torch

from ..bilm import BiLMState
from ..bilm.kernels import (
    check_training_precision,
    choose_training_matmul,
    multiply_by,
)
from ..bilm.weights import FILES
from ..errors import Errors
from ..files import held, named_path
from ..output import Messages
from ..processes import StopSignals
from ..text import Batch, read_ahead
from . import checkpoint
from .config import PretrainConfig
from .corpora import DEV, TRAIN, open_corpora, replace_text
from .evaluation import perplexity
from .identity import check_processes, check_resumable, identity, read_saved
from .loggers import Log
from .memory import gigabytes
from .optimizers import set_learn_rate
from .results import BEST, LAST, Results, prepare_output
from .start import Run, set_up, softmax_folder
from .step import train_step
from .workers import start, torch_settings


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
            is not finite any more; [EL124] another process trains there; also as
            `open_corpora`, `read_saved`, `start_model`, `make_optimizers` and
            `check_processes`.
        OSError: [EL013] A file can't be written; also as `open_corpora`.
        ImportError: [EL049] TensorBoard is asked for and not installed.
        MemoryError: [EL076] The GPU has no memory left.
        Stopped: The run was asked to stop, and has saved what it needs to resume.
    """
    training, output = config.training, named_path(output).absolute()
    with ExitStack() as scope:
        workers = scope.enter_context(start(training.device))
        scope.enter_context(torch_settings(training, workers.device))
        check_training_precision(training.precision, workers.device)
        if workers.is_first:
            scope.enter_context(held(output))
        prepare_output(output, training, workers)
        corpora, hashes = open_corpora(config, output, workers, overwrite=overwrite)
        depends_on = identity(config, hashes)
        saved = None if overwrite else read_saved(output, depends_on, workers)
        before = (saved or {}).get("matmul")  # None in checkpoints of old versions
        matmul = choose_training_matmul(workers.device.type, before)
        scope.enter_context(multiply_by(matmul))
        run = set_up(config, output, corpora, workers, depends_on)
        check_processes(run)
        results = Results(run, command)
        log, msg = None, Messages(no_print=not workers.is_first)
        if workers.is_first:
            first_step = saved["step"] if saved else 0
            log = Log(output, config, n_steps=run.n_steps, first_step=first_step)
        _announce(run, msg)
        loop = Loop(run, matmul, results, log, saved)
        if saved is not None:
            msg.info(f"Resuming at step {loop.step:,} of {run.n_steps:,}")
        stop = scope.enter_context(StopSignals())
        if log is not None:
            if overwrite:  # from here on nothing is refused any more
                _replace_run(output)
            scope.enter_context(log)
        if saved is None:  # so that models never stand there without one
            loop.save()
        try:
            loop.train(stop)
        except torch.cuda.OutOfMemoryError as error:
            raise Errors.EL076() from error
        if workers.is_first:
            results.finish(msg)
        workers.wait()
    return output / BEST


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


class Loop:
    """One process's part of a run: it makes the steps, and saves what it needs to
    resume exactly.

    Args:
        run: What is trained.
        matmul: How matrices are multiplied.
        results: The models that are saved.
        log: Where figures go; None except in the first process.
        saved: Progress of the checkpoint to resume from; None for a new run.

    Raises:
        ValueError: [EL046] The checkpoint can't be read; [EL047] it is of another run.
    """

    def __init__(
        self,
        run: Run,
        matmul: str,
        results: Results,
        log: Log | None,
        saved: dict[str, Any] | None,
    ) -> None:
        self.run, self.training, self.workers = run, run.config.training, run.workers
        self.matmul, self.results, self.log = matmul, results, log
        self.step, self.loss, self.learn_rate = 0, 0.0, 0.0
        self.norm = torch.zeros(())
        # Sum of the losses, and number of targets, since the last line of the log.
        self.recent = torch.zeros(2, dtype=torch.float64, device=run.workers.device)
        self.states = run.zero_states()  # carried over from step to step
        self.started = time.time()
        if saved is not None:
            self._resume(saved)

    def train(self, stop: StopSignals) -> None:
        """Make all steps that are left. Raises Stopped if asked to."""
        run, training = self.run, self.training
        # The step after which the biLM itself is trained.
        begins = 0 if softmax_folder(training) else training.softmax_first or None
        run.model.train()
        if self.step == begins == 0:
            self._measure_before()
        for batches in self._batches():
            if self.step % run.steps_per_epoch == 0:
                self.states = self.run.zero_states()
            factor = float(run.schedule(self.step, run.n_steps))
            self.learn_rate = set_learn_rate(run.optimizers, factor)
            figures, self.norm = train_step(
                run.model,
                run.optimizers,
                batches,
                self.states,
                training,
                step=self.step,
                workers=self.workers,
            )
            self.recent += figures
            self.step += 1
            asked = any(self.workers.sum([bool(stop.asked)]))
            at_end = self.step == run.n_steps
            evaluates = at_end or self.step % training.eval_every == 0
            logs = evaluates or self.step % training.log_every == 0
            saves = evaluates or asked or self.step % training.save_every == 0
            if self.log is not None:
                self.log.step()
            if logs or saves:
                self._check_loss()
            if self.step == begins:
                self._measure_before()
            if logs:
                self._write_log(evaluates)
            if saves:
                self.save()
            if asked and not at_end:
                raise Stopped(stop.asked or SIGTERM, self.step, run.n_steps)

    def _batches(self) -> Iterator[list[Batch[np.ndarray]]]:
        def make(step: int) -> list[Batch[np.ndarray]]:
            number = step % self.run.steps_per_epoch
            return [part.batch(number) for part in self.run.streams]

        return read_ahead(make, range(self.step, self.run.n_steps))

    # -- between steps ------------------------------------------------------------

    def _check_loss(self) -> None:
        """Raise ValueError [EL038] before anything is written of a broken model."""
        total, n = self.workers.sum(self.recent.tolist())
        self.loss = total / n if n else self.loss
        # The losses are from before the last update, which a broken gradient spoils.
        self._check_finite(self.loss, float(self.norm))

    def _check_finite(self, *figures: float) -> None:
        for loss in figures:
            if not math.isfinite(loss):
                raise Errors.EL038(loss=loss, step=self.step, output=self.run.output)

    def _write_log(self, evaluates: bool) -> None:
        """Write a line of the log. At an evaluation measure and save the model, too."""
        self.recent.zero_()
        if self.log is not None:
            row: dict[str, Any] = {
                "step": self.step,
                "tokens": self.step * self.log.tokens_per_step,
                "seconds": round(time.time() - self.started, 1),
                "loss": self.loss,
                "learn_rate": self.learn_rate,
                "tokens_per_second": round(self.log.speed(self.step)),
                "grad_norm": float(self.norm),
            }
            if evaluates:
                found = perplexity(self.run.model, self.run.corpora[DEV])
                self._check_finite(found.mean)
                self.log.say(
                    f"step {self.step:>7,}  {row['tokens_per_second']:>7,} tokens/s  "
                    f"loss {self.loss:.3f}  dev perplexity {found}"
                )
                row["epoch"] = (self.step - 1) // self.run.steps_per_epoch + 1
                row["dev"] = found.to_dict()
                seconds = time.time() - self.started
                self.results.save(row["dev"], row["tokens"], seconds)
            self.log.row(row)
        self.workers.wait()

    def _measure_before(self) -> None:
        """Measure the perplexities of the biLM before it is trained, which counts
        neither as steps nor as their time."""
        if self.log is not None:
            seconds = time.time() - self.started
            with self.log.paused():
                tokens = self.step * self.log.tokens_per_step
                found = self.results.measure_before(tokens, seconds)
                self.log.say(f"perplexity before the biLM is trained: {found}")
        self.workers.wait()

    # -- what is saved ------------------------------------------------------------

    def save(self) -> None:
        """Write the checkpoint."""
        state = self.workers.gather(BiLMState.join(self.states))
        recent = self.workers.sum(self.recent.tolist())
        if self.workers.is_first:
            saved = {
                "identity": self.run.depends_on,
                "vocabulary": self.run.vocabulary,
                "init": self.run.init,
                "matmul": self.matmul,
                "step": self.step,
                "n_steps": self.run.n_steps,
                "seconds": time.time() - self.started,
                "recent": recent,
                "results": self.results.to_dict(),
            }
            run = self.run
            checkpoint.save(run.output, run.model, run.optimizers, state, saved)
        self.workers.wait()

    def _resume(self, saved: dict[str, Any]) -> None:
        run, self.step = self.run, saved["step"]
        check_resumable(run, saved)
        state = checkpoint.load(run.output, run.model, run.optimizers)
        self.states = [
            state.rows(slice(part.rows.start, part.rows.stop)) for part in run.streams
        ]
        self.started -= saved["seconds"]
        if self.workers.is_first:  # the sums over all processes
            self.recent += self.recent.new_tensor(saved["recent"])
        self.results.restore(saved["results"], self.step)
