"""The training loop. START READING HERE for the trainer.

texts.py -> streams.py -> model.py -> optimizers.py, on every one of workers.py,
with what is written by checkpoint.py, loggers.py and card.py
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
from torch import Tensor
from wasabi import Printer

from ..bilm.kernels.products import check_bfloat16, onednn_matmul
from ..errors import Errors
from ..text.streams import Batch, read_ahead
from . import checkpoint
from .config import PretrainConfig
from .identity import check_same, check_schedule, identity
from .loggers import Log
from .model import join_states, on_device, some_streams
from .optimizers import clip_gradients, set_learn_rate
from .perplexity import Perplexity, perplexity
from .plan import duration, gigabytes
from .results import BEST, Results, check_output, prepare_output
from .start import (
    check_memory,
    divide_streams,
    keeps_softmax,
    make_optimizers,
    start_model,
)
from .stop import Stopped, StopSignals
from .texts import Texts, open_texts
from .workers import Workers, start

FIRST_ESTIMATE = 60  # seconds after which the time that is left is told


def pretrain(
    config: PretrainConfig, output: Path, *, command: str = "", overwrite: bool = False
) -> Path:
    """Train a biLM, or go on with a run that was stopped or killed.

    Writes `model-best`, `model-last`, `log.jsonl` and `checkpoint.safetensors` below
    output. command: how the run was started, for the model card. overwrite: begin anew
    where there is another run already.
    RETURNS: the folder of the best model (lowest mean perplexity of the dev text).
    Raises ValueError [EL017, EL018, EL029-EL048, EL077] and as `BiLM.load`, OSError
    [EL013, EL030, EL044], ImportError [EL049], MemoryError [EL076], and Stopped when it
    was asked to stop and has saved what it needs to go on.
    """
    training = config.training
    if training.threads:
        torch.set_num_threads(training.threads)
    if training.precision == "bfloat16":  # what stays float32 may use TF32
        torch.set_float32_matmul_precision("high")
    with onednn_matmul(), start(training.device) as workers:
        if training.precision == "bfloat16":
            check_bfloat16(workers.device)
        check_output(output, training.init)
        if workers.is_first:
            prepare_output(output, overwrite=overwrite)
        workers.wait()
        texts = open_texts(config, output, workers, overwrite=overwrite)
        run = Run(config, output, texts, workers, command)
        with ExitStack() as at_end:
            if workers.is_first:
                at_end.enter_context(run.start_log())
            try:
                run.train(at_end.enter_context(StopSignals()))
            except torch.cuda.OutOfMemoryError as error:
                raise MemoryError(Errors.EL076) from error
        if workers.is_first:
            run.results.finish(run.msg, workers.device)
        workers.wait()
    return output / BEST


class Run:
    """One process's part of a run.

    Shapes: B streams of this process, in `accumulate` parts.
    """

    def __init__(
        self,
        config: PretrainConfig,
        output: Path,
        texts: Texts,
        workers: Workers,
        command: str,
    ) -> None:
        training = config.training
        self.config, self.output, self.workers = config, output, workers
        self.msg = Printer(no_print=not workers.is_first)
        saved = checkpoint.read_progress(output)
        step = saved["step"] if saved else 0
        if workers.sum([step]) != [step * workers.size]:
            raise ValueError(Errors.EL018.format(path=output))
        self.identity = identity(config, texts.hashes)
        if saved is not None:
            check_same(output, saved["identity"], self.identity)
        self.model = start_model(config, texts.train.vocab, workers).to(workers.device)
        vocab = self.model.bilm.vocab or []
        self.train_text = texts.train.with_vocab(vocab)
        self.dev = texts.dev.with_vocab(vocab)
        also = {name: text.with_vocab(vocab) for name, text in texts.also.items()}
        self.parts = divide_streams(config, self.train_text, self.model.bilm, workers)
        if not self.dev.n_known:
            raise ValueError(Errors.EL017)
        n_steps = training.epochs * len(self.parts[0])
        self.n_steps = min(n_steps, training.max_steps or n_steps)
        self.tokens_a_step = training.batch_size * training.unroll_steps
        self.optimizers = make_optimizers(config, self.model)
        self.schedule = config.make("schedule", "spacy-elmo.WarmupCosine.v1")
        self.reader = workers.share(self.model.reader)
        self.state = [self.model.bilm.zero_state(len(p.rows)) for p in self.parts]
        self.step, self.first_step = 0, 0
        self.seconds, self.started = 0.0, time.time()
        # Sums over the steps since the last line of the log: loss, targets.
        self.recent = torch.zeros(2, dtype=torch.float64, device=workers.device)
        self.learn_rate, self.loss, self.norm = 0.0, 0.0, torch.zeros(())
        self.logged_at = (0, time.time())
        self.results = Results(
            config, output, command, self.train_text, also, workers.size
        )
        if saved is not None:
            self._restore(saved)
        self._say_what_it_will_do()

    def _say_what_it_will_do(self) -> None:
        training, text, model = self.config.training, self.train_text, self.model
        plan = check_memory(self.config, model, self.workers)
        self.msg.info(
            f"{text.n_tokens:,} tokens, vocabulary of {len(text.vocab):,} words "
            f"({text.coverage:.1%} of the text); dev text {self.dev.n_tokens:,} tokens "
            f"({self.dev.coverage:.1%} known)"
        )
        self.msg.info(
            f"{model.bilm.n_parameters:,} parameters in the biLM, "
            f"{plan.softmax_parameters:,} in the {model.softmax.describe()}"
        )
        self.msg.info(
            f"{self.n_steps:,} steps of {training.batch_size} x "
            f"{training.unroll_steps} tokens on {self.workers.size} x "
            f"{self.workers.device}, about {gigabytes(plan.memory())} of memory each"
        )

    # -- before the first step ----------------------------------------------------

    def _restore(self, saved: dict[str, Any]) -> None:
        n_steps = {"before": saved["n_steps"], "now": self.n_steps}
        check_schedule(self.output, self.schedule, saved["step"], **n_steps)
        state = checkpoint.load(self.output, self.model, self.optimizers)
        first = self.parts[0].rows.start
        for i, part in enumerate(self.parts):
            rows = slice(first + i * len(part.rows), first + (i + 1) * len(part.rows))
            self.state[i] = some_streams(state, rows)
        self.step = self.first_step = saved["step"]
        self.seconds = saved["seconds"]
        self.logged_at = (saved["step"], time.time())
        if self.workers.is_first:  # the sums are of all processes
            self.recent += self.recent.new_tensor(saved["recent"])
        self.results.restore(saved["results"], saved["step"])
        self.msg.info(f"Going on at step {self.step:,} of {self.n_steps:,}")

    # -- the steps ----------------------------------------------------------------

    def start_log(self) -> "Log":
        training = self.config.training
        self.log = Log(
            self.output,
            n_steps=self.n_steps,
            tokens_a_step=self.tokens_a_step,
            first_step=self.step,
            config=self.config.to_dict(),
            logger=self.config.make("logger"),
            tensorboard=training.tensorboard,
        )
        return self.log

    def train(self, stop: StopSignals) -> None:
        """All steps that are left. Raises Stopped."""
        training = self.config.training
        said = self.step >= self.n_steps
        self.model.train()
        if self.step == 0 and keeps_softmax(self.config):
            self._measure_before()
        for batches in self._batches():
            self._train_step(batches, stop)
            self.step += 1
            at_end = self.step == self.n_steps
            evaluate = at_end or self.step % training.eval_every == 0
            log = evaluate or self.step % training.log_every == 0
            save = evaluate or self.stop_asked or self.step % training.save_every == 0
            if log or save:
                self._check_loss()
            if self.workers.is_first:
                self.log.step()
                if not said and time.time() - self.started > FIRST_ESTIMATE:
                    said = True
                    self._say_time_left()
            if log:
                self._log(evaluate)
            if self.step == training.softmax_first and not keeps_softmax(self.config):
                self._measure_before()
            if save:
                self._save()
            if self.stop_asked and not at_end:
                raise Stopped(stop.asked or SIGTERM, self.step, self.n_steps)

    def _batches(self) -> Iterator[list[Batch[np.ndarray]]]:
        def make(step: int) -> list[Batch[np.ndarray]]:
            number = step % len(self.parts[0])
            return [part.batch(number) for part in self.parts]

        return read_ahead(make, range(self.step, self.n_steps))

    def _train_step(self, batches: list[Batch[np.ndarray]], stop: StopSignals) -> None:
        """One update, from all streams of all processes."""
        training, workers = self.config.training, self.workers
        softmax = self.model.softmax
        if self.step % len(self.parts[0]) == 0:  # an epoch begins
            self.state = [self.model.bilm.zero_state(len(p.rows)) for p in self.parts]
        torch.manual_seed(_mix(training.seed, self.step, workers.rank))
        n_own = sum(batch.n_targets for batch in batches)
        n_targets, asked = workers.sum([n_own, bool(stop.asked)])
        self.stop_asked = bool(asked)
        words = np.concatenate(
            [d.target_P for batch in batches for d in (batch.forward, batch.backward)]
        )
        softmax.begin_step(training.seed, self.step, workers.union(words))
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        for i, batch in enumerate(batches):
            log_p_P = self._read(batch, i, is_last=i == len(batches) - 1)
            loss = -log_p_P.sum()
            # Averaged over processes, so that it adds up to a mean over all targets.
            (loss * (workers.size / max(1.0, n_targets))).backward()
            self.recent += torch.stack(
                [loss.detach().double(), loss.new_tensor(batch.n_targets).double()]
            )
        workers.average_gradients(softmax.parameters())
        self.norm = clip_gradients(self.model.parameters(), training.clip_norm)
        factor = self.schedule(self.step, self.n_steps)
        self.learn_rate = set_learn_rate(self.optimizers, factor)
        for optimizer in self.optimizers:
            optimizer.step()

    def _read(self, batch: Batch[np.ndarray], part: int, *, is_last: bool) -> Tensor:
        """Log-probability of every target of a batch, (P,); carries the state on."""
        training, device = self.config.training, self.workers.device
        tensors = on_device(batch, device)
        learns = self.step >= training.softmax_first
        low = training.precision == "bfloat16"
        with ExitStack() as scope:
            scope.enter_context(
                torch.autocast(device.type, torch.bfloat16, enabled=low)
            )
            if learns and not is_last and self.workers.size > 1:
                scope.enter_context(self.reader.no_sync())  # type: ignore[operator]
            with torch.set_grad_enabled(learns):
                top_PH, self.state[part] = self.reader(tensors, self.state[part])
            targets = tensors.forward.target_P, tensors.backward.target_P
            log_p_P: Tensor = self.model.softmax(top_PH, torch.cat(targets))
        return log_p_P

    # -- between steps ------------------------------------------------------------

    def _check_loss(self) -> None:
        """Raises ValueError [EL038] before anything is written of a broken model."""
        total, n = self.workers.sum(self.recent.tolist())
        self.loss = total / n if n else self.loss
        self._check_finite(self.loss)
        # The losses are of before the last update, which a broken gradient would spoil.
        self._check_finite(float(self.norm))

    def _check_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise ValueError(
                Errors.EL038.format(loss=loss, step=self.step, output=self.output)
            )

    def _log(self, evaluate: bool) -> None:
        self.recent.zero_()
        if not self.workers.is_first:
            return self.workers.wait()
        before, since = self.logged_at
        speed = (self.step - before) * self.tokens_a_step / (time.time() - since)
        row: dict[str, Any] = {
            "step": self.step,
            "tokens": self.step * self.tokens_a_step,
            "seconds": round(self._seconds(), 1),
            "loss": self.loss,
            "learn_rate": self.learn_rate,
            "tokens_per_second": round(speed),
            "grad_norm": float(self.norm),
        }
        if evaluate:
            found = self._evaluate(speed)
            epoch = (self.step - 1) // len(self.parts[0]) + 1
            row |= {"epoch": epoch, "dev": found.to_dict()}
        self.log.row(row)
        self.logged_at = (self.step, time.time())
        self.workers.wait()

    def _evaluate(self, speed: float) -> Perplexity:
        found = perplexity(self.model, self.dev)
        self._check_finite(found.mean)
        self.log.say(
            f"step {self.step:>7,}  {speed:>7,.0f} tokens/s  loss {self.loss:.3f}  "
            f"dev perplexity {found}"
        )
        tokens = self.step * self.tokens_a_step
        self.results.evaluated(self.model, found, tokens, self._seconds())
        return found

    def _measure_before(self) -> None:
        """Perplexities that the biLM has before it is trained here."""
        if self.workers.is_first:
            found = self.results.measure_before(self.model, self.dev)
            self.log.say(f"perplexity before the biLM is trained: {found}")
        self.workers.wait()

    def _save(self) -> None:
        state = self.workers.gather(join_states(self.state))
        recent = self.workers.sum(self.recent.tolist())
        if self.workers.is_first:
            progress = {
                "identity": self.identity,
                "step": self.step,
                "n_steps": self.n_steps,
                "seconds": self._seconds(),
                "recent": recent,
                "results": self.results.to_dict(),
            }
            checkpoint.save(self.output, self.model, self.optimizers, state, progress)
        self.workers.wait()

    def _say_time_left(self) -> None:
        a_step = (time.time() - self.started) / (self.step - self.first_step)
        left = a_step * (self.n_steps - self.step)
        self.log.say(f"At this pace it takes another {duration(left)}")

    def _seconds(self) -> float:
        return self.seconds + time.time() - self.started


def _mix(seed: int, step: int, rank: int) -> int:
    """A seed for the random numbers of one step of one process, far from others'."""
    return (seed * 1_000_003 + step * 8_191 + rank) % (1 << 63)
