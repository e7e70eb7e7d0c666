"""What a run is made of, before its first step: its model, optimizers and streams."""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer

from .. import models as shipped
from ..bilm import BiLM, BiLMState, form_of, weights
from ..bilm.objectives import MakeObjective, Objective
from ..errors import Errors
from ..files import sha256_of
from ..text import Corpus, Streams, token_reader
from .config import PretrainConfig, TrainingConfig
from .corpora import DEV, TRAIN, Corpora
from .memory import Plan, available_memory, check_fits
from .model import LanguageModel
from .workers import Workers

# Of a text, as `Perplexity.to_dict` gives them. A number of tokens stays an int when a
# checkpoint is read.
Figures = dict[str, int | float]


@dataclass
class Results:
    """What a run has found, and how it began. Checkpoints keep it.

    Attributes:
        commands: How it was started, with the first step of each: a run may resume with
            other settings.
        started_from: Entry of the card on the model that it starts from, if any.
        best: Lowest perplexity of the dev text.
        before: Perplexities of each held-out text before the training.
    """

    commands: list[dict[str, Any]]
    started_from: dict[str, Any] | None
    best: float | None = None
    before: dict[str, Figures] = field(default_factory=dict)


class Run:
    """All that a run is made of, in one of its processes, and how far it is.

    Args:
        config: All settings.
        output: Folder of the run.
        workers: Its processes.
        corpora: Its texts, as `open_corpora` returns them.
        depends_on: The settings and texts that its weights depend on, from `identity`.
        matmul: How matrices are multiplied.
        command: How the run was started, for the model card.

    Attributes:
        corpora: Its texts, in the Unicode form and with the vocabulary of the model.
        model: What is trained, on its device.
        optimizers: Of the model's parameters.
        schedule: Of the learning rate.
        streams: This process's streams, in parts that are computed one after the other.
        memory: Bytes that it is expected to take.
        vocabulary: Hash of the words that are predicted.
        init: Fingerprint of the weights that it starts from; None for random ones.
        steps_per_epoch: Steps that read the training text once.
        n_steps: Steps that the run makes.
        step: Steps that are done.
        states: State of each part, carried over from step to step.
        recent: Sum of this process's losses, and number of their targets, since the
            last line of the log.
        loss: Mean loss of all processes when it was last looked at.
        started: Time at which it would have begun if it had never been stopped.
        results: What it has found.

    Raises:
        ValueError: [EL017] No word of the dev text is known; also as `start_model`,
            `make_optimizers` and `divide_streams`.
    """

    def __init__(
        self,
        config: PretrainConfig,
        output: Path,
        workers: Workers,
        corpora: Corpora,
        depends_on: dict[str, Any],
        matmul: str,
        command: str,
    ) -> None:
        self.config, self.output, self.workers = config, output, workers
        self.depends_on, self.matmul, training = depends_on, matmul, config.training
        self.model, self.memory = start_model(config, corpora[TRAIN].vocab, workers)
        bilm = self.model.bilm
        if training.init is None:
            bilm.form = form_of(corpora[TRAIN].words)
        vocab = bilm.vocab or []
        self.corpora = {
            name: text.in_form(bilm.form).with_vocab(vocab)
            for name, text in corpora.items()
        }
        self.optimizers = make_optimizers(config, self.model)
        self.schedule = config.schedule()
        self.streams = divide_streams(training, self.corpora[TRAIN], bilm, workers)
        if not self.corpora[DEV].n_known:
            raise Errors.EL017()
        self.steps_per_epoch = len(self.streams[0])
        n_steps = training.epochs * self.steps_per_epoch
        self.n_steps = min(n_steps, training.max_steps or n_steps)
        self.vocabulary = sha256_of("\n".join(vocab))
        self.init = bilm.fingerprint() if training.init else None
        self.step, self.loss, self.started = 0, 0.0, time.time()
        self.states = self.zero_states()
        self.recent = torch.zeros(2, dtype=torch.float64, device=workers.device)
        init = training.init_path
        source = None if init is None else shipped.started_from(init)
        self.results = Results([{"step": 0, "command": command}], source)

    @property
    def tokens(self) -> int:
        """Tokens that the model was trained on."""
        training = self.config.training
        return self.step * training.batch_size * training.unroll_steps

    @property
    def seconds(self) -> float:
        """Time that it was trained for."""
        return time.time() - self.started

    def zero_states(self) -> list[BiLMState]:
        """Return the carried state that an epoch begins with, for each part."""
        zero_state = self.model.bilm.zero_state
        return [zero_state(len(part.rows)) for part in self.streams]


def start_model(
    config: PretrainConfig, vocab: list[str], workers: Workers
) -> tuple[LanguageModel, int]:
    """Return the model that a run begins with, on its device, and the bytes of memory
    that each process is expected to take. That they are free is checked before.

    Args:
        config: All settings.
        vocab: Vocabulary of a new softmax.
        workers: The processes of the run.

    Raises:
        ValueError: [EL029, EL045] The objective does not fit the vocabulary; [EL037]
            the model can't be trained; [EL048] the run does not fit the memory; also
            as `LanguageModel.load`.
    """
    training, make, device = config.training, config.objective(), workers.device
    available, folder = available_memory(device), softmax_folder(training)
    torch.manual_seed(training.seed)
    if folder is not None:
        model = LanguageModel.load(folder, training.dropout)
        if "objective" in config.blocks:
            model.softmax = _continue(model, make)
    else:
        bilm = _start_bilm(config, vocab)
        vocab = list(dict.fromkeys(bilm.as_read(vocab)))
        size = (bilm.config.projection_dim, len(vocab))
        with torch.device("meta"):  # shapes, but no memory yet
            model = LanguageModel(bilm, make(*size))
    n_streams = max(1, training.batch_size // (workers.size * training.accumulate))
    moments, on_gpu = config.optimizer().moments, device.type == "cuda"
    plan = Plan(model, n_streams, training.unroll_steps, moments, on_gpu)
    check_fits(plan, available, workers.n_sharing)
    if folder is None:
        if config.model is not None:
            bilm = BiLM.random(config.model, seed=training.seed)
        bilm.vocab = vocab
        model = LanguageModel(bilm, make(*size), training.dropout)
    return model.to(device), plan.memory()


def _start_bilm(config: PretrainConfig, vocab: list[str]) -> BiLM:
    """Return the biLM that gets a new softmax; it has no memory if its weights are
    random. Raises ValueError [EL037] if the softmax can't have this vocabulary."""
    if config.model is not None:
        n_words = config.model.n_words
        if n_words and n_words != len(vocab):
            problem = (
                f"n_words ({n_words}) must be {len(vocab)}: the biLM reads words by "
                "the vocabulary that it predicts"
            )
            raise Errors.EL037(path="model", problem=problem)
        return BiLM.empty(config.model)
    bilm = BiLM.load(shipped.find(config.training.init_path or ""))
    if bilm.config.n_words:
        why = "there is no softmax of its own beside it"
        if config.training.new_softmax:
            why = "leave new_softmax out if it has a softmax of its own"
        problem = (
            "its input is a table of words, whose vocabulary a new softmax would "
            f"replace; {why}"
        )
        raise Errors.EL037(path=config.training.init, problem=problem)
    return bilm


def softmax_folder(training: TrainingConfig) -> Path | None:
    """Return the folder of the softmax and vocabulary that a run continues with; None
    if it makes new ones."""
    if training.init_path is None or training.new_softmax:
        return None
    path = shipped.find(training.init_path)
    return path if weights.has_objective(path) else None


def _continue(model: LanguageModel, make: MakeObjective) -> Objective:
    """Return a new objective with the weights of a model's."""
    softmax = make(model.bilm.config.projection_dim, len(model.bilm.vocab or []))
    try:
        softmax.load_state_dict(model.softmax.state_dict())
    except RuntimeError as error:  # it has other weights, or others in size
        problem = (
            f"init has a {model.softmax.describe()}, which can't be trained as a "
            f"{softmax.describe()}; leave [training.objective] out, or set new_softmax"
        )
        raise Errors.EL037(path="training", problem=problem) from error
    return softmax


def make_optimizers(config: PretrainConfig, model: LanguageModel) -> list[Optimizer]:
    """Return the optimizers of a model's parameters. Raises ValueError [EL123] if a
    parameter is in none of them, or in several."""
    bilm = dict(model.bilm.named_parameters(prefix="bilm"))
    softmax = dict(model.softmax.named_parameters(prefix="softmax"))
    sparse = softmax if model.softmax.sparse_gradients else {}
    optimizers = config.optimizer().make(bilm if sparse else bilm | softmax, sparse)
    groups = [group for each in optimizers for group in each.param_groups]
    trained = Counter(id(p) for group in groups for p in group["params"])
    for name, parameter in (bilm | softmax).items():
        if (n := trained[id(parameter)]) != 1:
            raise Errors.EL123(name=name, found=n)
    return optimizers


def divide_streams(
    training: TrainingConfig, text: Corpus, bilm: BiLM, workers: Workers
) -> list[Streams]:
    """Return the streams of one process, in parts that are computed in turn.

    Args:
        training: Settings of batches.
        text: The training text.
        bilm: The biLM, which says how words are read.
        workers: The processes that share the streams.

    Raises:
        ValueError: [EL035] The text is too short for as many streams; [EL037] they
            can't be shared equally.
    """
    n_parts = workers.size * training.accumulate
    size, rest = divmod(training.batch_size, n_parts)
    if rest:
        problem = (
            f"batch_size ({training.batch_size}) must be a multiple of processes x "
            f"accumulate ({workers.size} x {training.accumulate}), such as "
            f"{(size + 1) * n_parts}"
        )
        raise Errors.EL037(path="training", problem=problem)
    B, T, ids = training.batch_size, training.unroll_steps, token_reader(text, bilm)
    first = workers.rank * training.accumulate * size
    return [
        Streams(text, bilm, B, T, range(row, row + size), ids)
        for row in range(first, first + training.accumulate * size, size)
    ]
