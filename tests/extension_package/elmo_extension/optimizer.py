"""An optimizer: Lion (Chen et al. 2023)."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import Parameter
from torch.optim import Optimizer

from spacy_elmo.pretrain import OptimizerRecipe
from spacy_elmo.registry import registry


class Lion(Optimizer):
    """Follow the sign of the momentum, which grows over the first updates.

    The state of each parameter is a tensor and a number.
    """

    def __init__(self, parameters: list[Parameter], learn_rate: float) -> None:
        super().__init__(parameters, {"lr": learn_rate})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state.update(momentum=torch.zeros_like(parameter), n_updates=0)
                state["n_updates"] += 1
                share = 0.99 * (1 - 1 / (1 + state["n_updates"]))
                update = state["momentum"].lerp(parameter.grad, 0.1)
                parameter.sub_(update.sign(), alpha=group["lr"])
                state["momentum"].lerp_(parameter.grad, 1 - share)


@registry.optimizers("elmo-extension.Lion.v1")
def lion(learn_rate: float = 1e-3) -> OptimizerRecipe:
    """Make Lion, for parameters with dense gradients: a run with others is refused."""
    return OptimizerRecipe(
        lambda dense, _: [Lion(dense.values(), learn_rate)], moments=1
    )
