"""Optimizers, by registered name.

A new one is a function with an entry point in the group `spacy_elmo_optimizers`:

    @registry.optimizers("my-package.Lion.v1")
    def lion(learn_rate: float = 1e-4) -> OptimizerRecipe:
        return OptimizerRecipe(lambda dense, _: [Lion(dense.values(), learn_rate)], 1)

It makes `torch.optim.Optimizer`s, whose state_dict() is saved in checkpoints.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from pydantic import Field, validate_call
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Adagrad, Adam, AdamW, Muon, Optimizer, SparseAdam

from ..machine import INSTRUCTIONS, instructions
from ..registry import registry
from .schedules import Factor

Named = Mapping[str, Parameter]
Share = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class OptimizerRecipe:
    """How to make the optimizers of a run.

    Attributes:
        make: Called with the parameters that have dense gradients, and those that have
            sparse ones (none for most objectives), by name and always in one order.
            Names begin with "bilm." or "softmax.". Returns the optimizers.
        moments: Numbers that they keep for each parameter, for the plan of memory.
    """

    make: Callable[[Named, Named], list[Optimizer]]
    moments: int


@registry.optimizers("spacy-elmo.Adam.v1")
@validate_call
def adam(
    learn_rate: Factor = 0.002,
    beta1: Share = 0.9,
    beta2: Share = 0.999,
    eps: Annotated[Factor, Field(gt=0)] = 1e-8,
    weight_decay: Factor = 0.0,
) -> OptimizerRecipe:
    """Make Adam, or AdamW if weight_decay is not 0.

    A row with a sparse gradient is updated, and its moments decay, only in a step that
    uses it. Its weights don't decay.

    Args:
        learn_rate: Learning rate, which the schedule multiplies.
        beta1: Decay of the mean of gradients.
        beta2: Decay of the mean of their squares.
        eps: Added to the root of that mean.
        weight_decay: Share of the weights, times the rate, that a step takes off.
    """
    betas = (beta1, beta2)

    def make(dense: Named, sparse: Named) -> list[Optimizer]:
        made: list[Optimizer] = []
        if dense:
            kind, some = AdamW if weight_decay else Adam, list(dense.values())
            made.append(kind(some, learn_rate, betas, eps, weight_decay, fused=True))
        if sparse:
            some = list(sparse.values())  # SparseAdam takes no zeros when it is made
            made.append(SparseAdam(some, learn_rate or 1.0, betas, eps))
            made[-1].param_groups[0]["lr"] = learn_rate
        return made

    return OptimizerRecipe(make, moments=2)


@registry.optimizers("spacy-elmo.Muon.v1")
@validate_call
def muon(
    learn_rate: Factor = 0.004,
    momentum: Share = 0.95,
    ns_steps: Annotated[int, Field(ge=1, le=99)] = 5,
    weight_decay: Factor = 0.02,
    beta1: Share = 0.9,
    beta2: Share = 0.999,
    eps: Annotated[Factor, Field(gt=0)] = 1e-8,
) -> OptimizerRecipe:
    """Make Muon (Jordan et al. 2024) for the matrices of the biLM, and Adam for biases,
    filters, embeddings and the softmax. One rate fits both (Liu et al. 2025).

    Muon makes each update orthogonal. Its steps have one length, however large the
    weights are: without weight_decay gates can saturate. On a CPU without bfloat16 it
    iterates in float32.

    Args:
        learn_rate: Learning rate, which the schedule multiplies.
        momentum: Decay of the mean of the matrices' gradients.
        ns_steps: Steps of Newton and Schulz's iteration.
        weight_decay: Share of the matrices, times the rate, that a step takes off.
        beta1: As in Adam.
        beta2: As in Adam.
        eps: As in Adam.
    """

    def make(dense: Named, sparse: Named) -> list[Optimizer]:
        others = dict(dense)
        matrices = [
            others.pop(name)
            for name, parameter in dense.items()
            if name.startswith("bilm.")
            and parameter.ndim == 2
            and "embedding" not in name
        ]
        of_matrices = _muon_for(matrices)(
            matrices,
            learn_rate,
            weight_decay=weight_decay,
            momentum=momentum,
            ns_steps=ns_steps,
            adjust_lr_fn="match_rms_adamw",
        )
        return [of_matrices, *adam(learn_rate, beta1, beta2, eps).make(others, sparse)]

    return OptimizerRecipe(make, moments=2)


class BatchedMuon(Muon):
    """Muon, with "match_rms_adamw", that updates all matrices of one shape at once. One
    after the other, a GPU would spend most of the time on launching kernels."""

    dtype = torch.bfloat16

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the matrices that have a gradient."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape.setdefault(matrix.shape, []).append(matrix)
            for matrices in by_shape.values():
                self._update(matrices, group)

    def _update(self, matrices: list[Tensor], group: dict[str, Any]) -> None:
        """Update matrices of one shape."""
        for matrix in matrices:
            if "momentum_buffer" not in self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        means = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        gradients: list[Any] = [matrix.grad for matrix in matrices]
        torch._foreach_lerp_(means, gradients, 1 - group["momentum"])
        updates = [g.lerp(m, group["momentum"]) for g, m in zip(gradients, means)]
        updates_MIJ = orthogonal(
            torch.stack(updates).to(self.dtype),
            group["ns_coefficients"],
            group["ns_steps"],
        ).to(gradients[0].dtype)
        rate = 0.2 * math.sqrt(max(matrices[0].shape)) * group["lr"]
        torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(matrices, list(updates_MIJ), alpha=-rate)


class Float32Muon(BatchedMuon):
    """The same in float32. In bfloat16, as PyTorch iterates, a CPU that has only AVX2
    takes 75 s for 768 x 2,048 numbers."""

    dtype = torch.float32


def orthogonal(
    matrices: Tensor, coefficients: tuple[float, float, float], steps: int
) -> Tensor:
    """Return matrices (M, I, J) near to U V^T, where each of `matrices` is U S V^T, by
    Newton and Schulz's iteration with polynomials of degree 5 (Jordan et al. 2024). In
    float32 it iterates on the matrices times their transposes, which are smaller."""
    a, b, c = coefficients
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if is_tall else matrices
    x = x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True).clamp(min=1e-7)
    gram, product = x @ x.mT, torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    for _ in range(steps):
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        if x.dtype == torch.float32:
            factor.diagonal(dim1=1, dim2=2).add_(a)
            product, gram = factor @ product, factor @ gram @ factor
        else:  # in fewer bits the errors of the shorter way add up
            x = torch.baddbmm(x, factor, x, beta=a)
            gram = x @ x.mT
    x = product @ x if x.dtype == torch.float32 else x
    return x.mT if is_tall else x


def _muon_for(matrices: list[Parameter]) -> type[Muon]:
    """Return the form of Muon that is fast on the device of the matrices."""
    if not any(matrix.device.type == "cpu" for matrix in matrices):
        return BatchedMuon
    has_bfloat16 = INSTRUCTIONS.index("avx512_bf16")
    return Muon if INSTRUCTIONS.index(instructions()) >= has_bfloat16 else Float32Muon


@registry.optimizers("spacy-elmo.Adagrad.v1")
@validate_call
def adagrad(
    learn_rate: Factor = 0.2, initial_accumulator: Factor = 1.0
) -> OptimizerRecipe:
    """Make Adagrad, which trained the published models."""

    def make(dense: Named, sparse: Named) -> list[Optimizer]:
        first = initial_accumulator
        return [
            Adagrad(some.values(), learn_rate, initial_accumulator_value=first)
            for some in (dense, sparse)
            if some
        ]

    return OptimizerRecipe(make, moments=1)


@registry.optimizers("spacy-elmo.SGD.v1")
@validate_call
def sgd(learn_rate: Factor = 1.0) -> OptimizerRecipe:
    """Make plain gradient descent."""

    def make(dense: Named, sparse: Named) -> list[Optimizer]:
        return [SGD([*dense.values(), *sparse.values()], learn_rate)]

    return OptimizerRecipe(make, moments=0)


@torch.no_grad()
def clip_gradients(parameters: Iterable[Parameter], max_norm: float) -> Tensor:
    """Scale all gradients so that their global norm is at most max_norm. Return the
    norm before. Unlike `torch.nn.utils.clip_grad_norm_` it takes sparse gradients."""
    gradients = [values(p.grad) for p in parameters if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(gradients, scale)
    return norm


def values(gradient: Tensor) -> Tensor:
    """Return the numbers of a gradient; of a sparse one those of its rows."""
    return gradient._values() if gradient.is_sparse else gradient  # noqa: SLF001


def set_learn_rate(optimizers: Iterable[Optimizer], factor: float) -> float:
    """Multiply the learning rates that the optimizers were made with by a factor.
    Return the rate of the last parameter group."""
    rate = 0.0
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            rate = group.setdefault("initial_lr", group["lr"]) * factor
            group["lr"] = rate
    return rate
