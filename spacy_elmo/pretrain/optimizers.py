"""Optimizers and learning rates.

A softmax that is trained on samples has sparse gradients, of the rows that a step used:
those parameters get a sparse optimizer, all others a dense one.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, SparseAdam

from ..registry import registry

# Step, and the number of them -> a factor of the learning rate.
Schedule = Callable[[int, int], float]


@dataclass(frozen=True)
class OptimizerRecipe:
    """make: dense and sparse parameters -> their optimizers, in an order that stays.
    moments: numbers that they keep for each parameter."""

    make: Callable[[list[Parameter], list[Parameter]], list[Optimizer]]
    moments: int


@registry.optimizers("spacy-elmo.Adam.v1")
def adam(
    learn_rate: float = 0.002,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> OptimizerRecipe:
    """Adam, or AdamW where weight_decay is not 0. Sparse rows are moved, and their
    averages fade, only when they are used; they do not decay."""
    betas = (beta1, beta2)

    def make(dense: list[Parameter], sparse: list[Parameter]) -> list[Optimizer]:
        made: list[Optimizer] = []
        if dense and weight_decay:
            made.append(AdamW(dense, learn_rate, betas, eps, weight_decay, fused=True))
        elif dense:
            made.append(Adam(dense, learn_rate, betas, eps, fused=True))
        if sparse:
            made.append(SparseAdam(sparse, learn_rate, betas, eps))
        return made

    return OptimizerRecipe(make, moments=2)


@registry.optimizers("spacy-elmo.Adagrad.v1")
def adagrad(
    learn_rate: float = 0.2, initial_accumulator: float = 1.0
) -> OptimizerRecipe:
    """As the published models were trained."""

    def make(dense: list[Parameter], sparse: list[Parameter]) -> list[Optimizer]:
        return [
            Adagrad(some, learn_rate, initial_accumulator_value=initial_accumulator)
            for some in (dense, sparse)
            if some
        ]

    return OptimizerRecipe(make, moments=1)


@registry.optimizers("spacy-elmo.SGD.v1")
def sgd(learn_rate: float = 1.0) -> OptimizerRecipe:
    """Plain gradient descent."""
    return OptimizerRecipe(
        lambda dense, sparse: [SGD([*dense, *sparse], learn_rate)], moments=0
    )


@registry.schedules("spacy-elmo.WarmupCosine.v1")
def warmup_cosine(warmup_steps: int = 200, final: float = 0.05) -> Schedule:
    """Rises over warmup_steps (a tenth of all at most), then falls along a cosine to
    the share final."""

    def factor(step: int, n_steps: int) -> float:
        rising, done = _warmup(step, n_steps, warmup_steps)
        if rising < 1:
            return rising
        return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * done))

    return factor


@registry.schedules("spacy-elmo.WarmupLinear.v1")
def warmup_linear(warmup_steps: int = 200, final: float = 0.0) -> Schedule:
    """The same, falling in a straight line."""

    def factor(step: int, n_steps: int) -> float:
        rising, done = _warmup(step, n_steps, warmup_steps)
        return rising if rising < 1 else 1 - (1 - final) * done

    return factor


@registry.schedules("spacy-elmo.WarmupStableDecay.v1")
def warmup_stable_decay(
    warmup_steps: int = 200, decay_steps: int = 1000, final: float = 0.0
) -> Schedule:
    """The same, falling in a straight line in the last decay_steps alone, or in half of
    all if they are more (Hu et al. 2024). Until then it does not depend on how many
    steps there are, so a run can be made longer or shorter while it lasts."""

    def factor(step: int, n_steps: int) -> float:
        rising, _ = _warmup(step, n_steps, warmup_steps)
        left = max(0, n_steps - step) / max(1, min(decay_steps, n_steps // 2))
        return rising * min(1.0, final + (1 - final) * left)

    return factor


@registry.schedules("spacy-elmo.Constant.v1")
def constant(warmup_steps: int = 0) -> Schedule:
    """The same, staying where it is after the rise."""
    return lambda step, n_steps: _warmup(step, n_steps, warmup_steps)[0]


def _warmup(step: int, n_steps: int, warmup_steps: int) -> tuple[float, float]:
    """The share of the learning rate that is reached, and of the rest that is done."""
    warmup = min(warmup_steps, n_steps // 10)
    if step < warmup:
        return (step + 1) / (warmup + 1), 0.0
    return 1.0, min(1.0, (step - warmup) / max(1, n_steps - warmup))


@torch.no_grad()
def clip_gradients(parameters: Iterable[Parameter], max_norm: float) -> Tensor:
    """Scale all gradients so that their common norm is max_norm at most. torch's own
    does not take sparse ones. RETURNS: the norm before."""
    gradients = [values(p.grad) for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(
        torch.stack([torch.linalg.vector_norm(g) for g in gradients])
    )
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale)
    return norm


def values(gradient: Tensor) -> Tensor:
    """The numbers that a gradient holds."""
    return gradient._values() if gradient.is_sparse else gradient


def set_learn_rate(optimizers: Iterable[Optimizer], factor: float) -> float:
    """factor: of what each was made with. RETURNS: the learning rate."""
    rate = 0.0
    for optimizer in optimizers:
        rate = optimizer.defaults["lr"] * factor
        for group in optimizer.param_groups:
            group["lr"] = rate
    return rate
