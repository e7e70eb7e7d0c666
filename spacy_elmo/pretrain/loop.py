"""The training loop. START READING HERE for the trainer.

corpora.py -> text/streams.py -> step.py, in every one of workers.py, with what is
written by checkpoint.py, loggers.py and results.py
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

from ..bilm import BiLMState, form_of
from ..bilm.kernels import (
    check_training_precision,
    choose_training_matmul,
    multiply_by,
)
from ..errors import Errors
from ..files import held, sha256_of
from ..output import Messages
from ..text import Batch, read_ahead
from . import checkpoint
from .config import PretrainConfig
from .corpora import DEV, TRAIN, Corpora, describe, open_corpora, replace_text
from .evaluation import perplexity
from .identity import check_processes, check_schedule, identity, read_saved
from .loggers import Log
from .memory import gigabytes
from .optimizers import set_learn_rate
from .results import BEST, Results, prepare_output, remove_models
from .start import divide_streams, make_optimizers, softmax_folder, start_model
from .step import train_step
from .stop import Stopped, StopSignals
from .workers import Workers, start, torch_settings


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
    training, output = config.training, Path(output).absolute()
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
        before = saved["matmul"] if saved and "matmul" in saved else None
        matmul = choose_training_matmul(workers.device.type, before)
        scope.enter_context(multiply_by(matmul))
        loop = Loop(config, output, command, corpora, depends_on, workers, matmul)
        if saved is not None:
            loop.restore(saved)
        stop = scope.enter_context(StopSignals())
        if workers.is_first:
            log = Log(output, config, n_steps=loop.n_steps, first_step=loop.step)
            if overwrite:  # from here on nothing is refused any more
                _replace_run(output)
            loop.log = scope.enter_context(log)
        if saved is None:  # so that models never stand there without one
            loop.save()
        try:
            loop.train(stop)
        except torch.cuda.OutOfMemoryError as error:
            raise MemoryError(Errors.EL076) from error
        if workers.is_first:
            loop.results.finish(loop.msg)
        workers.wait()
    return output / BEST


def _replace_run(output: Path) -> None:
    """Remove what another run has left, and keep the text of this one."""
    (output / checkpoint.FILE).unlink(missing_ok=True)
    remove_models(output)
    replace_text(output)


class Loop:
    """One process's part of a run: its streams are in parts that are computed one after
    the other, each with a carried state. `log` is None except in the first process;
    `recent` are the loss and the number of targets since its last line, `matmul` is how
    matrices are multiplied."""

    def __init__(
        self,
        config: PretrainConfig,
        output: Path,
        command: str,
        corpora: Corpora,
        depends_on: dict[str, Any],
        workers: Workers,
        matmul: str,
    ) -> None:
        self.training, self.output = config.training, output
        self.workers, self.depends_on = workers, depends_on
        self.log: Log | None = None
        self.msg = Messages(no_print=not workers.is_first)
        self.model, plan = start_model(config, corpora[TRAIN].vocab, workers)
        bilm, vocab = self.model.bilm, self.model.bilm.vocab or []
        if self.training.init is None:
            bilm.form = form_of(corpora[TRAIN].words)
        self.vocabulary = sha256_of("\n".join(vocab))
        self.init = bilm.fingerprint() if self.training.init else None
        self.corpora = {
            name: text.in_form(bilm.form).with_vocab(vocab)
            for name, text in corpora.items()
        }
        self.results = Results(config, output, command, self.corpora, workers)
        self.optimizers = make_optimizers(config, self.model)
        self.schedule = config.schedule()
        text = self.corpora[TRAIN]
        self.streams = divide_streams(self.training, text, bilm, workers)
        if not self.corpora[DEV].n_known:
            raise ValueError(Errors.EL017)
        self.steps_per_epoch = len(self.streams[0])
        self.n_steps = self.training.epochs * self.steps_per_epoch
        self.n_steps = min(self.n_steps, self.training.max_steps or self.n_steps)
        self.step, self.loss, self.learn_rate = 0, 0.0, 0.0
        self.norm, self.matmul = torch.zeros(()), matmul
        self.recent = torch.zeros(2, dtype=torch.float64, device=workers.device)
        self.started, self.logged_at = time.time(), (0, time.time())
        self._reset_states()
        check_processes(depends_on, self.vocabulary, self.n_steps, bilm, workers)
        for line in describe(self.corpora, self.model):
            self.msg.info(line)
        B, T = self.training.batch_size, self.training.unroll_steps
        self.msg.info(
            f"{self.n_steps:,} steps of {B} x {T} tokens on {workers.size} x "
            f"{workers.device}, about {gigabytes(plan.memory())} of memory each"
        )

    def train(self, stop: StopSignals) -> None:
        """Make all steps that are left. Raises Stopped if asked to."""
        training = self.training
        # The step after which the biLM itself is trained.
        begins = 0 if softmax_folder(training) else training.softmax_first or None
        self.model.train()
        if self.step == begins == 0:
            self._measure_before()
        for batches in self._batches():
            if self.step % self.steps_per_epoch == 0:
                self._reset_states()
            factor = float(self.schedule(self.step, self.n_steps))
            self.learn_rate = set_learn_rate(self.optimizers, factor)
            figures, self.norm = train_step(
                self.model,
                self.optimizers,
                batches,
                self.states,
                training,
                step=self.step,
                workers=self.workers,
            )
            self.recent += figures
            self.step += 1
            asked = any(self.workers.sum([bool(stop.asked)]))
            at_end = self.step == self.n_steps
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
                raise Stopped(stop.asked or SIGTERM, self.step, self.n_steps)

    def _batches(self) -> Iterator[list[Batch[np.ndarray]]]:
        def make(step: int) -> list[Batch[np.ndarray]]:
            number = step % self.steps_per_epoch
            return [part.batch(number) for part in self.streams]

        return read_ahead(make, range(self.step, self.n_steps))

    def _reset_states(self) -> None:
        """Set the carried states to zeros, as at the start of an epoch."""
        zero_state = self.model.bilm.zero_state
        self.states = [zero_state(len(part.rows)) for part in self.streams]

    # -- between steps ------------------------------------------------------------

    def _check_loss(self) -> None:
        """Raise ValueError [EL038] before anything is written of a broken model."""
        total, n = self.workers.sum(self.recent.tolist())
        self.loss = total / n if n else self.loss
        # The losses are of before the last update, which a broken gradient would spoil.
        self._check_finite(self.loss, float(self.norm))

    def _check_finite(self, *figures: float) -> None:
        for loss in figures:
            if not math.isfinite(loss):
                message = Errors.EL038.format(
                    loss=loss, step=self.step, output=self.output
                )
                raise ValueError(message)

    def _write_log(self, evaluates: bool) -> None:
        """Write a line of the log; at an evaluation measure and save the model too."""
        self.recent.zero_()
        if self.log is not None:
            tokens, (step, since) = self.log.tokens_per_step, self.logged_at
            speed = (self.step - step) * tokens / max(time.time() - since, 1e-9)
            row: dict[str, Any] = {
                "step": self.step,
                "tokens": self.step * tokens,
                "seconds": round(time.time() - self.started, 1),
                "loss": self.loss,
                "learn_rate": self.learn_rate,
                "tokens_per_second": round(speed),
                "grad_norm": float(self.norm),
            }
            if evaluates:
                found = perplexity(self.model, self.corpora[DEV])
                self._check_finite(found.mean)
                self.log.say(
                    f"step {self.step:>7,}  {row['tokens_per_second']:>7,} tokens/s  "
                    f"loss {self.loss:.3f}  dev perplexity {found}"
                )
                seconds = time.time() - self.started
                self.results.evaluated(self.model, found, row["tokens"], seconds)
                row["epoch"] = (self.step - 1) // self.steps_per_epoch + 1
                row["dev"] = found.to_dict()
            self.log.row(row)
        self.logged_at = (self.step, time.time())
        self.workers.wait()

    def _measure_before(self) -> None:
        """Measure the perplexities that the biLM has before it is trained here, which
        counts neither as steps nor as their time."""
        if self.log is not None:
            step, since = self.logged_at
            began = time.time()
            with self.log.paused():
                tokens = self.step * self.log.tokens_per_step
                seconds = began - self.started
                found = self.results.measure_before(self.model, tokens, seconds)
                self.log.say(f"perplexity before the biLM is trained: {found}")
            self.logged_at = (step, since + time.time() - began)
        self.workers.wait()

    # -- what is saved ------------------------------------------------------------

    def save(self) -> None:
        """Write the checkpoint."""
        state = self.workers.gather(BiLMState.join(self.states))
        recent = self.workers.sum(self.recent.tolist())
        if self.workers.is_first:
            saved = {
                "identity": self.depends_on,
                "vocabulary": self.vocabulary,
                "init": self.init,
                "matmul": self.matmul,
                "step": self.step,
                "n_steps": self.n_steps,
                "seconds": time.time() - self.started,
                "recent": recent,
                "results": self.results.to_dict(),
            }
            checkpoint.save(self.output, self.model, self.optimizers, state, saved)
        self.workers.wait()

    def restore(self, saved: dict[str, Any]) -> None:
        """Resume from a checkpoint; raise ValueError [EL046, EL047] if it can't be."""
        self.step = saved["step"]
        if self.step > self.n_steps or self.step == self.n_steps < saved["n_steps"]:
            made, wanted = f"{self.step:,}", f"{self.n_steps:,}"
            differs = f"it has made {made} steps and has none left of {wanted}"
            raise ValueError(Errors.EL047.format(path=self.output, differs=differs))
        n_steps = {"before": saved["n_steps"], "now": self.n_steps}
        check_schedule(self.output, self.schedule, self.step, **n_steps)
        now = {"vocabulary": self.vocabulary, "init": self.init}
        for kept, what in zip(now, ("another vocabulary", "other weights")):
            if saved.get(kept, now[kept]) != now[kept]:
                source = f"'{self.training.init}'" if self.init else "the text"
                differs = f"{source} has {what} now"
                raise ValueError(Errors.EL047.format(path=self.output, differs=differs))
        state = checkpoint.load(self.output, self.model, self.optimizers)
        self.states = [
            state.rows(slice(part.rows.start, part.rows.stop)) for part in self.streams
        ]
        self.started -= saved["seconds"]
        self.logged_at = (self.step, time.time())
        if self.workers.is_first:  # the sums over all processes
            self.recent += self.recent.new_tensor(saved["recent"])
        self.results.restore(saved["results"], self.step)
        self.msg.info(f"Resuming at step {self.step:,} of {self.n_steps:,}")
