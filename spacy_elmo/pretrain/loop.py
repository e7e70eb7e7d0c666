"""The training loop. START READING HERE for the trainer.

corpora.py -> text/streams.py -> step.py, in every one of workers.py, with what is
written by checkpoint.py, loggers.py and results.py
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from signal import SIGTERM
from typing import Any

import numpy as np
import torch
from wasabi import Printer

from ..bilm.kernels.matmul import onednn_for_training
from ..bilm.kernels.processor import check_bfloat16
from ..bilm.lstm import BiLMState
from ..errors import Errors
from ..text.streams import Batch, read_ahead
from . import checkpoint
from .config import PretrainConfig
from .corpora import open_corpora
from .identity import check_same, check_schedule, identity
from .loggers import Log
from .optimizers import set_learn_rate
from .perplexity import perplexity
from .progress import Progress
from .results import BEST, Results, check_output, prepare_output
from .start import Run, keeps_softmax, start_run, torch_settings
from .step import train_step
from .stop import Stopped, StopSignals
from .units import gigabytes
from .workers import Workers, start


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
            is not finite any more; [EL046, EL047] there is a checkpoint that is damaged
            or of another run; also as `open_corpora` and `start_run`.
        OSError: [EL013] A file can't be written; also as `open_corpora`.
        ImportError: [EL049] TensorBoard is asked for and not installed.
        MemoryError: [EL076] The GPU has no memory left.
        Stopped: The run was asked to stop, and has saved what it needs to resume.
    """
    training = config.training
    with ExitStack() as scope:
        scope.enter_context(torch_settings(training))
        workers = scope.enter_context(start(training.device))
        scope.enter_context(onednn_for_training(workers.device))
        gpus = [workers.device] if workers.device.type == "cuda" else []
        scope.enter_context(torch.random.fork_rng(gpus))
        if training.precision == "bfloat16":
            check_bfloat16(workers.device)
        check_output(output, training.init)
        if workers.is_first:
            prepare_output(output, overwrite=overwrite)
        workers.wait()
        corpora = open_corpora(config, output, workers, overwrite=overwrite)
        depends_on = identity(config, corpora.hashes)
        saved = _read_saved(output, depends_on, workers)
        run = start_run(config, corpora, workers)
        results = Results(config, output, command, run.corpora, workers.size)
        loop = Loop(config, output, run, results, workers, depends_on)
        if saved is not None:
            loop.restore(saved)
        stop = scope.enter_context(StopSignals())
        if workers.is_first:
            loop.log = scope.enter_context(loop.start_log())
        try:
            loop.train(stop)
        except torch.cuda.OutOfMemoryError as error:
            raise MemoryError(Errors.EL076) from error
        if workers.is_first:
            results.finish(loop.msg, workers.device)
        workers.wait()
    return output / BEST


def _read_saved(
    output: Path, depends_on: dict[str, Any], workers: Workers
) -> dict[str, Any] | None:
    """Return the progress in the checkpoint, None if there is none; raise ValueError
    [EL018, EL047] if it is of another run, or not all processes see it."""
    saved = checkpoint.read_progress(output)
    step = saved["step"] if saved else 0
    if workers.sum([step]) != [step * workers.size]:
        raise ValueError(Errors.EL018.format(path=output))
    if saved is not None:
        check_same(output, saved["identity"], depends_on)
    return saved


class Loop:
    """One process's part of a run, from its first step to its last.

    Attributes:
        log: Where figures are written; None except in the first process.
    """

    def __init__(
        self,
        config: PretrainConfig,
        output: Path,
        run: Run,
        results: Results,
        workers: Workers,
        depends_on: dict[str, Any],
    ) -> None:
        self.config, self.training, self.output = config, config.training, output
        self.run, self.results, self.workers = run, results, workers
        self.depends_on = depends_on
        self.log: Log | None = None
        self.msg = Printer(no_print=not workers.is_first)
        tokens = self.training.batch_size * self.training.unroll_steps
        self.progress = Progress(run.n_steps, tokens, workers.device)
        self._say_what_it_will_do()

    def _say_what_it_will_do(self) -> None:
        model, text, dev = self.run.model, self.run.corpora.train, self.run.corpora.dev
        n_softmax = sum(p.numel() for p in model.softmax.parameters())
        self.msg.info(
            f"{text.n_tokens:,} tokens, vocabulary of {len(text.vocab):,} words "
            f"({text.coverage:.1%} of the text); dev text {dev.n_tokens:,} tokens "
            f"({dev.coverage:.1%} known)"
        )
        self.msg.info(
            f"{model.bilm.n_parameters:,} parameters in the biLM, {n_softmax:,} in the "
            f"{model.softmax.describe()}"
        )
        self.msg.info(
            f"{self.run.n_steps:,} steps of {self.training.batch_size} x "
            f"{self.training.unroll_steps} tokens on {self.workers.size} x "
            f"{self.workers.device}, about {gigabytes(self.run.memory)} of memory each"
        )

    def restore(self, saved: dict[str, Any]) -> None:
        """Resume from a checkpoint; raise ValueError [EL046, EL047] if it can't be."""
        run, step = self.run, saved["step"]
        n_steps = {"before": saved["n_steps"], "now": run.n_steps}
        check_schedule(self.output, run.schedule, step, **n_steps)
        state = checkpoint.load(self.output, run.model, run.optimizers)
        run.states = [
            state.rows(slice(part.rows.start, part.rows.stop)) for part in run.streams
        ]
        self.progress.restore(saved, is_first=self.workers.is_first)
        self.results.restore(saved["results"], step)
        self.msg.info(f"Resuming at step {step:,} of {run.n_steps:,}")

    def start_log(self) -> Log:
        """Open the log of the run."""
        return Log(
            self.output,
            n_steps=self.run.n_steps,
            tokens_per_step=self.progress.tokens_per_step,
            first_step=self.progress.step,
            config=self.config.to_dict(),
            logger=self.config.logger(),
            tensorboard=self.training.tensorboard,
        )

    # -- the steps ----------------------------------------------------------------

    def train(self, stop: StopSignals) -> None:
        """Make all steps that are left. Raises Stopped if asked to."""
        training, progress = self.training, self.progress
        measures_at = 0 if keeps_softmax(training) else training.softmax_first or None
        self.run.model.train()
        if progress.step == measures_at == 0:
            self._measure_before()
        for batches in self._batches():
            asked = self._step(batches, stop)
            evaluates = progress.at_end or progress.step % training.eval_every == 0
            logs = evaluates or progress.step % training.log_every == 0
            saves = evaluates or asked or progress.step % training.save_every == 0
            if logs or saves:
                self._check_loss()
            if logs:
                self._write_log(evaluates)
            if progress.step == measures_at:
                self._measure_before()
            if saves:
                self._save()
            if asked and not progress.at_end:
                raise Stopped(stop.asked or SIGTERM, progress.step, progress.n_steps)

    def _batches(self) -> Iterator[list[Batch[np.ndarray]]]:
        def make(step: int) -> list[Batch[np.ndarray]]:
            number = step % self.run.steps_per_epoch
            return [part.batch(number) for part in self.run.streams]

        return read_ahead(make, range(self.progress.step, self.run.n_steps))

    def _step(self, batches: list[Batch[np.ndarray]], stop: StopSignals) -> bool:
        """Make one step; return whether a process was asked to stop."""
        run, progress = self.run, self.progress
        if progress.step % run.steps_per_epoch == 0:  # an epoch begins
            run.reset_states()
        factor = run.schedule(progress.step, run.n_steps)
        progress.learn_rate = set_learn_rate(run.optimizers, factor)
        result = train_step(
            run.model,
            run.optimizers,
            batches,
            run.states,
            self.training,
            step=progress.step,
            workers=self.workers,
        )
        progress.count(result)
        (asked,) = self.workers.sum([bool(stop.asked)])
        if self.log is not None:
            self.log.step()
        return bool(asked)

    # -- between steps ------------------------------------------------------------

    def _check_loss(self) -> None:
        """Raise ValueError [EL038] before anything is written of a broken model."""
        progress = self.progress
        total, n = self.workers.sum(progress.recent.tolist())
        progress.loss = total / n if n else progress.loss
        # The losses are of before the last update, which a broken gradient would spoil.
        self._check_finite(progress.loss, float(progress.norm))

    def _check_finite(self, *figures: float) -> None:
        for loss in figures:
            if not math.isfinite(loss):
                step = self.progress.step
                raise ValueError(
                    Errors.EL038.format(loss=loss, step=step, output=self.output)
                )

    def _write_log(self, evaluates: bool) -> None:
        self.progress.recent.zero_()
        if self.log is not None:
            row = self.progress.row()
            if evaluates:
                row |= self._evaluate(self.log, row)
            self.log.row(row)
        self.progress.logged()
        self.workers.wait()

    def _evaluate(self, log: Log, row: dict[str, Any]) -> dict[str, Any]:
        """Measure and save the model; return what the row of the log says of it."""
        found = perplexity(self.run.model, self.run.corpora.dev)
        self._check_finite(found.mean)
        log.say(
            f"step {row['step']:>7,}  {row['tokens_per_second']:>7,} tokens/s  "
            f"loss {row['loss']:.3f}  dev perplexity {found}"
        )
        progress = self.progress
        self.results.evaluated(self.run.model, found, progress.tokens, progress.seconds)
        epoch = (progress.step - 1) // self.run.steps_per_epoch + 1
        return {"epoch": epoch, "dev": found.to_dict()}

    def _measure_before(self) -> None:
        """Measure the perplexities that the biLM has before it is trained here."""
        if self.log is not None:
            found = self.results.measure_before(self.run.model)
            self.log.say(f"perplexity before the biLM is trained: {found}")
        self.workers.wait()

    def _save(self) -> None:
        run, progress = self.run, self.progress
        state = self.workers.gather(BiLMState.join(run.states))
        recent = self.workers.sum(progress.recent.tolist())
        if self.workers.is_first:
            saved = {
                "identity": self.depends_on,
                "step": progress.step,
                "n_steps": run.n_steps,
                "seconds": progress.seconds,
                "recent": recent,
                "results": self.results.to_dict(),
            }
            checkpoint.save(self.output, run.model, run.optimizers, state, saved)
        self.workers.wait()
