"""Optimizers, by registered name.

A new one is a function with an entry point in the group `spacy_elmo_optimizers`:

    @registry.optimizers("my-package.Lion.v1")
    def lion(learn_rate: float = 1e-4) -> OptimizerRecipe:
        return OptimizerRecipe(lambda dense, _: [Lion(dense.values(), learn_rate)], 1)

It makes `torch.optim.Optimizer`s. Checkpoints hold whatever their state_dict() holds.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from pydantic import Field, validate_call
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Adagrad, Adam, AdamW, Muon, Optimizer, SparseAdam

from ..bilm.kernels.processor import INSTRUCTIONS, instructions
from ..registry import registry
from .bounds import Factor, Share

Named = Mapping[str, Parameter]


@dataclass(frozen=True)
class OptimizerRecipe:
    """How the optimizers of a run are made: of the parameters with dense and those with
    sparse gradients (none unless the objective has them), by name, always in the same
    order; names begin with "bilm." or "softmax.". `moments` are the numbers that are
    kept for each parameter, for memory plans."""

    make: Callable[[Named, Named], list[Optimizer]]
    moments: int


@registry.optimizers("spacy-elmo.Adam.v1")
@validate_call
def adam(
    learn_rate: Factor = 0.002,
    beta1: Share = 0.9,
    beta2: Share = 0.999,
    eps: Factor = 1e-8,
    weight_decay: Factor = 0.0,
) -> OptimizerRecipe:
    """Make Adam, or AdamW where weight_decay is not 0. Rows with sparse gradients are
    updated, and their moments decay, only when they are used; weights of theirs don't
    decay."""
    betas = (beta1, beta2)

    def make(dense: Named, sparse: Named) -> list[Optimizer]:
        made: list[Optimizer] = []
        if dense:
            kind, some = AdamW if weight_decay else Adam, list(dense.values())
            made.append(kind(some, learn_rate, betas, eps, weight_decay, fused=True))
        if sparse:
            some = list(sparse.values())  # SparseAdam takes no zeros when it is made
            made.append(SparseAdam(some, learn_rate or 1.0, betas, eps or 1e-30))
            made[-1].param_groups[0]["lr"] = learn_rate
        return made

    return OptimizerRecipe(make, moments=2)


@registry.optimizers("spacy-elmo.Muon.v1")
@validate_call
def muon(
    learn_rate: Factor = 0.004,
    momentum: Share = 0.95,
    ns_steps: Annotated[int, Field(ge=1, le=99)] = 5,
    weight_decay: Factor = 0.0,
    beta1: Share = 0.9,
    beta2: Share = 0.999,
    eps: Factor = 1e-8,
) -> OptimizerRecipe:
    """Make Muon (Jordan et al. 2024) for the matrices of the biLM, whose updates it
    makes orthogonal by ns_steps of Newton and Schulz's iteration, and whose weights
    alone decay; Adam for biases, filters, embeddings and the softmax. One rate fits
    both (Liu et al. 2025). It iterates in float32 on a CPU that has no instructions for
    bfloat16."""

    def make(dense: Named, sparse: Named) -> list[Optimizer]:
        names = {
            name
            for name, parameter in dense.items()
            if name.startswith("bilm.")
            and parameter.ndim == 2
            and "embedding" not in name
        }
        matrices = [dense[name] for name in dense if name in names]
        others = {name: dense[name] for name in dense if name not in names}
        of_matrices = (Float32Muon if _bfloat16_is_slow(matrices) else Muon)(
            matrices,
            learn_rate,
            weight_decay=weight_decay,
            momentum=momentum,
            ns_steps=ns_steps,
            adjust_lr_fn="match_rms_adamw",
        )
        return [of_matrices, *adam(learn_rate, beta1, beta2, eps).make(others, sparse)]

    return OptimizerRecipe(make, moments=2)


class Float32Muon(Muon):
    """Muon that iterates in float32, with "match_rms_adamw". PyTorch's iterates in
    bfloat16, at which a CPU with AVX2 alone takes 75 s for 768 x 2,048 numbers."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the matrices that have a gradient."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                state = self.state[matrix]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(matrix.grad)
                mean = state["momentum_buffer"].lerp_(
                    matrix.grad, 1 - group["momentum"]
                )
                update = orthogonal(
                    matrix.grad.lerp(mean, group["momentum"]),
                    group["ns_coefficients"],
                    group["ns_steps"],
                )
                rate = 0.2 * math.sqrt(max(matrix.shape)) * group["lr"]
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.add_(update, alpha=-rate)


def orthogonal(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int
) -> Tensor:
    """Return a matrix near to U V^T, where `matrix` is U S V^T, by Newton and Schulz's
    iteration with polynomials of degree 5 (Jordan et al. 2024). It iterates on the
    matrix times its transpose, which is the smaller one."""
    a, b, c = coefficients
    x = matrix.mT if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / x.norm().clamp(min=1e-7)
    gram, product = x @ x.mT, torch.eye(len(x), device=x.device)
    for _ in range(steps):
        factor = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        factor.diagonal().add_(a)
        product, gram = factor @ product, factor @ gram @ factor
    x = product @ x
    return x.mT if matrix.shape[0] > matrix.shape[1] else x


def _bfloat16_is_slow(matrices: list[Parameter]) -> bool:
    if not any(matrix.device.type == "cpu" for matrix in matrices):
        return False
    return INSTRUCTIONS.index(instructions()) < INSTRUCTIONS.index("avx512_bf16")


@registry.optimizers("spacy-elmo.Adagrad.v1")
@validate_call
def adagrad(
    learn_rate: Factor = 0.2, initial_accumulator: Factor = 1.0
) -> OptimizerRecipe:
    """Make Adagrad, which the published models were trained by."""
    make = partial(
        Adagrad, lr=learn_rate, initial_accumulator_value=initial_accumulator
    )
    return OptimizerRecipe(
        lambda dense, sparse: [make(some.values()) for some in (dense, sparse) if some],
        1,
    )


@registry.optimizers("spacy-elmo.SGD.v1")
@validate_call
def sgd(learn_rate: Factor = 1.0) -> OptimizerRecipe:
    """Make plain gradient descent."""
    return OptimizerRecipe(
        lambda dense, sparse: [SGD([*dense.values(), *sparse.values()], learn_rate)], 0
    )


@torch.no_grad()
def clip_gradients(parameters: Iterable[Parameter], max_norm: float) -> Tensor:
    """Scale all gradients so that their global norm is max_norm at most; return what it
    was. Other than `torch.nn.utils.clip_grad_norm_` it takes sparse gradients."""
    gradients = [values(p.grad) for p in parameters if p.grad is not None]
    norms = [torch.linalg.vector_norm(gradient) for gradient in gradients]
    norm = torch.linalg.vector_norm(torch.stack(norms))
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale)
    return norm


def values(gradient: Tensor) -> Tensor:
    """Return the numbers of a gradient, those of its rows if it is sparse."""
    return gradient._values() if gradient.is_sparse else gradient  # noqa: SLF001


def set_learn_rate(optimizers: Iterable[Optimizer], factor: float) -> float:
    """Set the learning rates to a factor of those that the optimizers were made with,
    and return that of the last parameter group."""
    rate = 0.0
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            rate = group.setdefault("initial_lr", group["lr"]) * factor
            group["lr"] = rate
    return rate
