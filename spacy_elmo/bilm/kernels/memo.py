"""Whether weights are still the ones that something was computed from."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import increment_version
from torch.optim.optimizer import register_optimizer_step_post_hook


def state_of(weights: Iterable[Tensor]) -> tuple[object, ...]:
    """Another one whenever a weight is replaced or written to, in place or by an
    optimizer. What is written through `.data` goes unnoticed."""
    return tuple(
        (id(w), w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights
    )


def pinned(weights: Iterable[Tensor]) -> list[Tensor]:
    """To be kept beside a state: as long as these live, no other weight and no other
    memory has the same address."""
    return [tensor for w in weights for tensor in (w, w.detach())]


def _count_fused_steps(optimizer: Any, *_: Any) -> None:
    """torch counts what writes to a tensor, but not its own fused optimizers."""
    for group in optimizer.param_groups:
        if group.get("fused"):
            for parameter in group["params"]:
                if parameter.grad is not None:
                    with torch.no_grad():
                        increment_version(parameter)


register_optimizer_step_post_hook(_count_fused_steps)
