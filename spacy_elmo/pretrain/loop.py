"""The training loop."""

import json
import math
import platform
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils import clip_grad_norm_
from tqdm import tqdm
from wasabi import Printer

from .. import __version__
from ..bilm import softmax as softmax_module
from ..bilm.bilm import BiLM
from ..errors import Errors
from .card import write_card
from .config import PretrainConfig, TrainingConfig
from .corpus import Corpus, Streams, build_corpus, check_vocab
from .model import LanguageModel
from .perplexity import Perplexity, perplexity
from .text import read_sentences

BEST, LAST = "model-best", "model-last"


def pretrain(config: PretrainConfig, output: Path, *, command: str = "") -> Path:
    """Train a biLM and write `model-best` and `model-last` below output.

    command: how the run was started, for the model card.
    RETURNS: the folder of the best model (lowest mean perplexity of the dev text).
    Raises ValueError [EL030-EL038], OSError [EL013].
    """
    log = Printer()
    training = config.training
    device = find_device(training.device)
    check_output(output, training.init)
    if training.threads:
        torch.set_num_threads(training.threads)
    torch.manual_seed(training.seed)
    with log.loading("Reading text ..."):
        model, corpus, dev = prepare(config)
    model.to(device)
    streams = Streams(corpus, training.batch_size, training.unroll_steps)
    n_steps = training.epochs * len(streams)
    log.info(
        f"{corpus.n_tokens:,} tokens, vocabulary of {corpus.n_vocab:,} words "
        f"({corpus.coverage:.1%} of the text); dev text {dev.n_tokens:,} tokens"
    )
    log.info(
        f"{model.bilm.n_parameters:,} parameters in the biLM, {n_steps:,} steps of "
        f"{training.batch_size} x {training.unroll_steps} tokens, on "
        f"{model.bilm.device}"
    )
    run = _Run(config, output, command, corpus, log)
    before = perplexity(model, dev) if training.init else None
    if before:
        log.info(f"dev perplexity before training: {before.mean:.2f}")
    run.train(model, streams, dev, before)
    if before:
        say = log.good if run.best < before.mean else log.warn
        say(f"dev perplexity {before.mean:.2f} -> {run.best:.2f}")
    return output / BEST


def prepare(config: PretrainConfig) -> tuple[LanguageModel, Corpus, Corpus]:
    """The model to start from, and the training and dev text in its vocabulary."""
    training, text = config.training, config.text
    model, vocab = None, None
    if config.model is not None:
        bilm = BiLM.random(config.model, seed=training.seed)
    else:
        folder = Path(training.init or "")
        if (folder / softmax_module.FILE).exists():
            model = LanguageModel.load(folder, training.dropout)
            vocab = model.bilm.vocab or []
            check_vocab(vocab, folder)
        else:
            bilm = BiLM.load(folder)
            if bilm.config.n_words:
                problem = "its input is a table of words, which only inference can read"
                raise ValueError(Errors.EL037.format(path=folder, problem=problem))
    sentences = read_sentences(
        map(Path, text.train), lang=text.lang, split_sentences=text.sentences
    )
    corpus = build_corpus(
        sentences,
        vocab=vocab,
        vocab_size=config.vocab.size,
        min_count=config.vocab.min_count,
        max_tokens=text.max_tokens,
    )
    dev_sentences = read_sentences(
        map(Path, text.dev), lang=text.lang, split_sentences=text.sentences
    )
    dev = build_corpus(
        dev_sentences, vocab=corpus.vocab, max_tokens=text.dev_max_tokens
    )
    if model is None:
        bilm.vocab = corpus.vocab
        model = LanguageModel.start(
            bilm, training.cutoffs, seed=training.seed, dropout_rate=training.dropout
        )
    return model, corpus, dev


class _Run:
    """One run: its files, its log and the best so far."""

    def __init__(
        self,
        config: PretrainConfig,
        output: Path,
        command: str,
        corpus: Corpus,
        log: Printer,
    ) -> None:
        self.config, self.output, self.command = config, output, command
        self.corpus, self.log = corpus, log
        self.best = math.inf
        self.started = time.time()
        output.mkdir(parents=True, exist_ok=True)
        (output / "log.jsonl").write_text("")

    def train(
        self,
        model: LanguageModel,
        streams: Streams,
        dev: Corpus,
        before: Perplexity | None,
    ) -> None:
        training = self.config.training
        n_steps = training.epochs * len(streams)
        optimizer = torch.optim.Adam(model.parameters(), lr=training.learn_rate)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: learn_rate_factor(step, n_steps, training)
        )
        tokens_a_step = training.batch_size * training.unroll_steps
        step, recent = 0, 0.0
        model.train()
        with tqdm(
            total=n_steps * tokens_a_step, unit=" tokens", unit_scale=True
        ) as bar:
            for _ in range(training.epochs):
                state = model.bilm.zero_state(training.batch_size)
                for window in streams:
                    log_ps, state = model(window, self.corpus.words, state)
                    n = sum(len(log_p) for log_p in log_ps)
                    loss = -torch.cat(log_ps).sum() / max(1, n)
                    optimizer.zero_grad(set_to_none=True)
                    loss.backward()
                    clip_grad_norm_(model.parameters(), training.clip_norm)
                    optimizer.step()
                    schedule.step()
                    step += 1
                    value = loss.item()
                    self.check_finite(value, step)
                    recent = value if step == 1 else 0.98 * recent + 0.02 * value
                    bar.update(tokens_a_step)
                    bar.set_postfix(loss=f"{recent:.3f}", refresh=False)
                    if step % training.eval_every == 0 or step == n_steps:
                        found = perplexity(model, dev)
                        self.evaluated(
                            model, found, step, step * tokens_a_step, recent, before
                        )
                        model.train()

    def check_finite(self, loss: float, step: int) -> None:
        """Raises ValueError [EL038]."""
        if not math.isfinite(loss):
            best = f"The best model so far is in '{self.output / BEST}'."
            if math.isinf(self.best):
                best = "No model was saved yet."
            raise ValueError(Errors.EL038.format(loss=loss, step=step, best=best))

    def evaluated(
        self,
        model: LanguageModel,
        found: Perplexity,
        step: int,
        tokens: int,
        loss: float,
        before: Perplexity | None,
    ) -> None:
        """Log an evaluation and save the model, as the best if it is."""
        self.check_finite(found.mean, step)  # or a broken model would be saved
        seconds = time.time() - self.started
        row = {
            "step": step,
            "tokens": tokens,
            "seconds": round(seconds, 1),
            "loss": loss,
        }
        with (self.output / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({**row, "dev": found.to_dict()}) + "\n")
        tqdm.write(
            f"step {step:>7,}  {tokens / seconds:>7,.0f} tokens/s  loss {loss:.3f}  "
            f"dev perplexity {found.mean:.2f} (forward {found.forward:.2f}, "
            f"backward {found.backward:.2f})"
        )
        self.save(model, self.output / LAST, found, tokens, before)
        if found.mean < self.best:
            self.best = found.mean
            self.save(model, self.output / BEST, found, tokens, before)

    def save(
        self,
        model: LanguageModel,
        folder: Path,
        found: Perplexity,
        tokens: int,
        before: Perplexity | None,
    ) -> None:
        written = model.save(folder, dtype=self.config.training.save_dtype)
        config = asdict(self.config)
        card: dict[str, Any] = {
            "spacy_elmo": __version__,
            "fingerprint": written,
            "parameters": model.bilm.n_parameters,
            "text": {
                "note": self.config.text.note,
                "files": self.config.text.train,
                "tokens": self.corpus.n_tokens,
                "coverage": self.corpus.coverage,
            },
            "vocabulary": self.corpus.n_vocab,
            "tokens_seen": tokens,
            "dev_files": self.config.text.dev,
            "dev_perplexity": found.to_dict(),
            "dev_perplexity_before": before.to_dict() if before else None,
            "seconds": round(time.time() - self.started, 1),
            "hardware": f"{platform.machine()}, {torch.get_num_threads()} threads, "
            f"{model.bilm.device}, torch {torch.__version__}",
            "command": self.command,
            "config": config,
        }
        write_card(folder, card)


def learn_rate_factor(step: int, n_steps: int, training: TrainingConfig) -> float:
    """Linear warm-up, then a cosine to final_learn_rate; a factor of learn_rate."""
    warmup = min(training.warmup_steps, n_steps // 10)
    if step < warmup:
        return (step + 1) / warmup
    last = training.final_learn_rate / training.learn_rate
    done = (step - warmup) / max(1, n_steps - warmup)
    return last + (1 - last) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def find_device(name: str) -> torch.device:
    """Raises ValueError [EL037] for a device that is not there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        problem = (
            f"device is {name!r}, but torch finds no GPU; 'auto' takes what is there"
        )
        raise ValueError(Errors.EL037.format(path="training", problem=problem))
    return torch.device(name)


def check_output(output: Path, init: str | None) -> None:
    """Raises ValueError [EL037] if a run would write over the model it starts from."""
    for name in (BEST, LAST):
        if init is not None and (output / name).resolve() == Path(init).resolve():
            problem = (
                f"the run would overwrite its init, {init!r}; choose another output"
            )
            raise ValueError(Errors.EL037.format(path="training", problem=problem))
