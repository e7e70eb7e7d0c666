"""What a run starts from: its model, its optimizers, its streams."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.optim import Optimizer

from .. import models as shipped
from ..bilm import files, objectives
from ..bilm.bilm import BiLM
from ..bilm.lstm import BiLMState
from ..bilm.objectives import MakeObjective, Objective
from ..errors import Errors
from ..text.corpus import Corpus
from ..text.streams import Streams
from .config import PretrainConfig, TrainingConfig
from .corpora import Corpora
from .model import LanguageModel
from .plan import Plan, available_memory, check_fits
from .schedules import Schedule
from .workers import Workers


@dataclass
class Run:
    """What a process trains: its streams are in parts that are computed one after the
    other, each with a carried state; `memory` are the bytes it is expected to take."""

    model: LanguageModel
    optimizers: list[Optimizer]
    schedule: Schedule
    corpora: Corpora
    streams: list[Streams]
    states: list[BiLMState]
    n_steps: int
    memory: int

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps in which all streams are read once."""
        return len(self.streams[0])

    def reset_states(self) -> None:
        """Set the carried states to zeros, as at the start of an epoch."""
        zero_state = self.model.bilm.zero_state
        self.states = [zero_state(len(part.rows)) for part in self.streams]


def start_run(config: PretrainConfig, corpora: Corpora, workers: Workers) -> Run:
    """Make everything that a run begins with; memory is checked before it is taken.

    Raises:
        ValueError: [EL017] The dev text has no known word; [EL029, EL045] the objective
            does not fit the vocabulary; [EL035, EL037] the batch does not fit the text
            or the processes; [EL048] the run does not fit the memory; also as
            `LanguageModel.load`.
    """
    training = config.training
    model, plan = _start_model(config, corpora.train.vocab, workers)
    model = model.to(workers.device)
    corpora = corpora.with_vocab(model.bilm.vocab or [])
    streams = _divide_streams(training, corpora.train, model.bilm, workers)
    if not corpora.dev.n_known:
        raise ValueError(Errors.EL017)
    n_steps = training.epochs * len(streams[0])
    run = Run(
        model=model,
        optimizers=_make_optimizers(config, model),
        schedule=config.schedule(),
        corpora=corpora,
        streams=streams,
        states=[],
        n_steps=min(n_steps, training.max_steps or n_steps),
        memory=plan.memory(),
    )
    run.reset_states()
    return run


def keeps_softmax(training: TrainingConfig) -> bool:
    """Return whether a run continues with the softmax and vocabulary of its init."""
    if training.init is None or training.new_softmax:
        return False
    folder = files.folder_of(shipped.find(training.init))
    return (folder / objectives.FILE).exists()


def _start_model(
    config: PretrainConfig, vocab: list[str], workers: Workers
) -> tuple[LanguageModel, Plan]:
    training = config.training
    available = available_memory(workers.device)

    def check(model: LanguageModel) -> Plan:
        plan = _plan(config, model, workers)
        check_fits(plan, available, workers.n_sharing)
        return plan

    torch.manual_seed(training.seed)
    if keeps_softmax(training):
        folder = files.folder_of(shipped.find(training.init or ""))
        model = LanguageModel.load(folder, training.dropout)
        plan = check(model)
        if "objective" in config.blocks:
            model.softmax = _continue(model, config.objective())
        return model, plan
    if config.model is not None:
        bilm = BiLM.random(config.model, seed=training.seed)
    else:
        bilm = BiLM.load(shipped.find(training.init or ""))
        if bilm.config.n_words:
            problem = "its input is a table of words, which only inference can read"
            raise ValueError(Errors.EL037.format(path=training.init, problem=problem))
    bilm.vocab = vocab
    make, size = config.objective(), (bilm.config.projection_dim, len(vocab))
    with torch.device("meta"):  # shapes, but no memory yet
        sketch = make(*size)
    plan = check(LanguageModel(bilm, sketch))
    return LanguageModel(bilm, make(*size), training.dropout), plan


def _plan(config: PretrainConfig, model: LanguageModel, workers: Workers) -> Plan:
    training = config.training
    n_streams = training.batch_size // (workers.size * training.accumulate)
    return Plan.for_model(
        model,
        n_streams=max(1, n_streams),
        unroll_steps=training.unroll_steps,
        moments=config.optimizer().moments,
        on_gpu=workers.device.type == "cuda",
    )


def _continue(model: LanguageModel, make: MakeObjective) -> Objective:
    """Return a new objective with the weights of a model's; raise ValueError [EL037] if
    they don't fit."""
    weights = model.softmax.state_dict()
    softmax = make(model.bilm.config.projection_dim, len(model.bilm.vocab or []))
    shapes = {name: array.shape for name, array in softmax.state_dict().items()}
    if {name: array.shape for name, array in weights.items()} != shapes:
        problem = (
            f"init has a {model.softmax.describe()}, which can't be trained as a "
            f"{softmax.describe()}; leave [training.objective] out, or set new_softmax"
        )
        raise ValueError(Errors.EL037.format(path="training", problem=problem))
    softmax.load_state_dict(weights)
    return softmax


def _make_optimizers(config: PretrainConfig, model: LanguageModel) -> list[Optimizer]:
    dense, softmax = list(model.bilm.parameters()), list(model.softmax.parameters())
    sparse = softmax if model.softmax.sparse_gradients else []
    return config.optimizer().make(dense if sparse else dense + softmax, sparse)


def _divide_streams(
    training: TrainingConfig, text: Corpus, bilm: BiLM, workers: Workers
) -> list[Streams]:
    """Return one process's streams, in parts that are computed one after the other;
    raise ValueError [EL035, EL037] if there can't be as many."""
    n_parts = workers.size * training.accumulate
    size, rest = divmod(training.batch_size, n_parts)
    if rest:
        problem = (
            f"batch_size ({training.batch_size}) must be a multiple of processes x "
            f"accumulate ({workers.size} x {training.accumulate}), such as "
            f"{(size + 1) * n_parts}"
        )
        raise ValueError(Errors.EL037.format(path="training", problem=problem))
    first = workers.rank * training.accumulate
    return [
        Streams(
            text,
            bilm,
            training.batch_size,
            training.unroll_steps,
            range(part * size, (part + 1) * size),
        )
        for part in range(first, first + training.accumulate)
    ]


@contextmanager
def torch_settings(training: TrainingConfig) -> Iterator[None]:
    """Set torch's threads, and its precision for bfloat16, and restore both."""
    threads = torch.get_num_threads()
    low = training.precision == "bfloat16"
    precision = torch.get_float32_matmul_precision() if low else ""
    if training.threads:
        torch.set_num_threads(training.threads)
    if low:  # what stays float32 may use TF32
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        if low:
            torch.set_float32_matmul_precision(precision)
