"""The full softmax: softmax(h W + b) over all words."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...registry import registry
from ..parameter import parameter
from .objective import MakeObjective, Objective, in_chunks


class FullSoftmax(Objective):
    """softmax(h W + b), exact. Its cost grows with the vocabulary."""

    name = "spacy-elmo.FullSoftmax.v1"

    def __init__(self, width: int, n_words: int) -> None:
        super().__init__(width, n_words)
        self.weight = parameter(n_words, width)
        self.bias = nn.Parameter(torch.zeros(n_words, dtype=torch.float32))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, h_NH: Tensor, target_N: Tensor) -> Tensor:
        """Return the log-probability of every target, (N,)."""
        return in_chunks(self.log_p, h_NH, target_N, self.n_words)

    def log_p(self, h_NH: Tensor, target_N: Tensor) -> Tensor:
        """Return the log-probability of every target, (N,), with all logits in memory
        at once."""
        logits_NV = F.linear(h_NH, self.weight, self.bias).float()
        return -F.cross_entropy(logits_NV, target_N, reduction="none")

    def vectors(self) -> Tensor:
        """Return the weight: one vector for each word, (V, H)."""
        return self.weight.detach()

    def describe(self) -> str:
        """Return the description for messages."""
        return "full softmax"


@registry.objectives(FullSoftmax.name)
def full_softmax() -> MakeObjective:
    """Make a full softmax, which is exact. Its cost grows with the vocabulary."""
    return FullSoftmax
