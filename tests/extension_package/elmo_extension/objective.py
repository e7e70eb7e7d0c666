"""An objective: a softmax with a temperature."""

from typing import Annotated, Any

import torch
import torch.nn.functional as F
from pydantic import Field, validate_call
from torch import Tensor, nn

from spacy_elmo.bilm.objectives import MakeObjective, Objective, in_chunks
from spacy_elmo.registry import registry


class TemperatureSoftmax(Objective):
    """softmax(h W / t): the higher the temperature t, the flatter the distribution."""

    name = "elmo-extension.TemperatureSoftmax.v1"

    def __init__(self, width: int, n_words: int, temperature: float) -> None:
        super().__init__(width, n_words)
        self.temperature = temperature
        self.weight = nn.Parameter(torch.randn(n_words, width) * width**-0.5)

    def forward(self, h_NH: Tensor, target_N: Tensor) -> Tensor:
        """Return the log-probability of every target, (N,)."""
        return in_chunks(self._log_p, h_NH, target_N, self.logits_per_prediction)

    def _log_p(self, h_NH: Tensor, target_N: Tensor) -> Tensor:
        logits_NV = F.linear(h_NH, self.weight).float() / self.temperature
        return -F.cross_entropy(logits_NV, target_N, reduction="none")

    def vectors(self) -> Tensor:
        """Return one vector for each word, (V, H)."""
        return self.weight.detach()

    def settings(self) -> dict[str, Any]:
        """Return the arguments of `temperature_softmax`."""
        return {"temperature": self.temperature}


@registry.objectives(TemperatureSoftmax.name)
@validate_call
def temperature_softmax(
    temperature: Annotated[float, Field(gt=0)] = 1.0,
) -> MakeObjective:
    """Make a softmax with a temperature."""
    return lambda width, n_words: TemperatureSoftmax(width, n_words, temperature)
