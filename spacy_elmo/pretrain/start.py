"""What a run starts from: its model, its optimizers, its streams."""

import torch

from .. import models as shipped
from ..bilm import objectives
from ..bilm.bilm import BiLM
from ..bilm.objectives import FullSoftmax, MakeObjective, Objective
from ..errors import Errors
from ..text.corpus import Corpus
from ..text.streams import Streams
from .config import PretrainConfig
from .model import LanguageModel
from .plan import Plan, available_memory, check_fits
from .workers import Workers

OPTIMIZER = "spacy-elmo.Adam.v1"  # where none is named


def keeps_softmax(config: PretrainConfig) -> bool:
    """Whether the run goes on with its init's softmax and vocabulary."""
    training = config.training
    if training.init is None or training.new_softmax:
        return False
    return (shipped.find(training.init) / objectives.FILE).exists()


def start_model(
    config: PretrainConfig, vocab: list[str], workers: Workers
) -> LanguageModel:
    """vocab: of the training text; not used where init has its own.

    Raises ValueError [EL029, EL037, EL045, EL048], and as `BiLM.load`.
    """
    training = config.training
    objective: MakeObjective | None = config.make("objective")
    torch.manual_seed(training.seed)
    if keeps_softmax(config):
        model = LanguageModel.load(shipped.find(training.init or ""), training.dropout)
        check_memory(config, model, workers)
        if objective is not None:
            model.softmax = _continue(model, objective)
        return model
    if config.model is not None:
        bilm = BiLM.random(config.model, seed=training.seed)
    else:
        bilm = BiLM.load(shipped.find(training.init or ""))
        if bilm.config.n_words:
            problem = "its input is a table of words, which only inference can read"
            raise ValueError(Errors.EL037.format(path=training.init, problem=problem))
    bilm.vocab = vocab
    objective = objective or config.make("objective", FullSoftmax.name)
    assert objective is not None
    width = bilm.config.projection_dim
    with torch.device("meta"):  # shapes, but no memory yet
        sketch = LanguageModel(bilm, objective(width, len(vocab)))
    check_memory(config, sketch, workers)
    return LanguageModel(bilm, objective(width, len(vocab)), training.dropout)


def check_memory(
    config: PretrainConfig, model: LanguageModel, workers: Workers
) -> Plan:
    """Raises ValueError [EL048] if a run can't fit, with what would."""
    training, device = config.training, workers.device
    n_streams = training.batch_size // (workers.size * training.accumulate)
    plan = Plan.of(
        model,
        n_streams=max(1, n_streams),
        unroll_steps=training.unroll_steps,
        moments=config.make("optimizer", OPTIMIZER).moments,
        on_gpu=device.type == "cuda",
    )
    check_fits(plan, available_memory(device), workers.n_sharing)
    return plan


def _continue(model: LanguageModel, objective: MakeObjective) -> Objective:
    """The model's softmax, trained by another objective. Raises ValueError [EL037]."""
    weights = model.softmax.state_dict()
    softmax = objective(model.bilm.config.projection_dim, len(model.bilm.vocab or []))
    shapes = {name: array.shape for name, array in softmax.state_dict().items()}
    if {name: array.shape for name, array in weights.items()} != shapes:
        problem = (
            f"init has a {model.softmax.describe()}, which can't be trained as a "
            f"{softmax.describe()}; leave [training.objective] out, or set new_softmax"
        )
        raise ValueError(Errors.EL037.format(path="training", problem=problem))
    softmax.load_state_dict(weights)
    return softmax


def make_optimizers(
    config: PretrainConfig, model: LanguageModel
) -> list[torch.optim.Optimizer]:
    softmax = list(model.softmax.parameters())
    dense = list(model.bilm.parameters())
    sparse = softmax if model.softmax.sparse_gradients else []
    recipe = config.make("optimizer", OPTIMIZER)
    return list(recipe.make(dense if sparse else dense + softmax, sparse))


def divide_streams(
    config: PretrainConfig, text: Corpus, bilm: BiLM, workers: Workers
) -> list[Streams]:
    """One process's streams, in parts that are computed one after the other.

    Raises ValueError [EL035, EL037].
    """
    training = config.training
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
