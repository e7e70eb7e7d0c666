"""The protocol of a training objective.

Shapes: N predictions, H projection, V vocabulary.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ...machine import at_once


class Objective(nn.Module):
    """A distribution over the vocabulary that a biLM is trained to predict words by.

    Both directions share one. A new objective is a subclass and a function that is
    registered under its name, in a package with an entry point in the group
    `spacy_elmo_objectives`:

        class MyObjective(Objective):
            name = "my-package.MyObjective.v1"
            ...

        @registry.objectives(MyObjective.name)
        def my_objective(temperature: float = 1.0) -> MakeObjective:
            return lambda width, n_words: MyObjective(width, n_words, temperature)

    `[training.objective]` names it, the trainer asks it for what this class shows, and
    a saved model is loaded through the registry, by name and settings.

    Attributes:
        name: The registered name.
        sparse_gradients: Whether the gradients of its parameters are sparse tensors.
            They must then have the same rows in every process of a run.
        width: Size of the vectors that are predicted from, H.
        n_words: Size of the vocabulary, V. Words are numbered by falling frequency.
    """

    name: str = ""
    sparse_gradients: bool = False

    def __init__(self, width: int, n_words: int) -> None:
        super().__init__()
        self.width, self.n_words = width, n_words

    def forward(self, h_NH: Tensor, target_N: Tensor) -> Tensor:
        """Return the log-probability of every target, (N,), given outputs of a biLM's
        top layer. Outside training mode it must be exact over the whole vocabulary, so
        that perplexities of different objectives can be compared."""
        raise NotImplementedError

    def vectors(self) -> Tensor:
        """Return one vector for each word of the vocabulary, (V, H)."""
        raise NotImplementedError

    def begin_step(self, seed: int, step: int, targets: np.ndarray) -> None:
        """Prepare for a training step, whose random numbers must follow from the seed
        of the run and the number of the step; `targets` are the distinct words that it
        predicts in any process, sorted."""

    def prepare(self, target_N: np.ndarray, device: torch.device) -> Any:
        """Return what `forward` can be given as a third argument, of the same targets,
        because it would have to wait for the device to find it out; None for nothing,
        and then it is not given."""
        return None

    @property
    def logits_per_prediction(self) -> int:
        """Number of logits computed for a prediction in training, for memory plans."""
        return self.n_words

    def settings(self) -> dict[str, Any]:
        """Return the arguments of the registered function, as JSON can hold them."""
        return {}

    def describe(self) -> str:
        """Return the objective's description for messages."""
        return self.name


# From the width and the number of words: what a registered function returns.
MakeObjective = Callable[[int, int], Objective]


def in_chunks(
    log_p: Callable[..., Tensor],
    h_NH: Tensor,
    target_N: Tensor,
    n_logits: int,
    known: Iterable[Any] | None = None,
) -> Tensor:
    """Return log_p(h_NH, target_N), computed for chunk_size predictions at a time.
    known: a third argument for each chunk.

    In training each chunk is computed again for its gradient: four matrix
    multiplications in place of three, and the logits of no other chunk in memory.
    """
    size = chunk_size(n_logits, h_NH.device)
    parts: list[Iterable[Any]] = [h_NH.split(size), target_N.split(size)]
    chunks = zip(*parts, *([] if known is None else [known]))
    if len(h_NH) <= size or not torch.is_grad_enabled():
        return torch.cat([log_p(*chunk) for chunk in chunks])
    again = partial(checkpoint, log_p, use_reentrant=False, preserve_rng_state=False)
    return torch.cat([again(*chunk) for chunk in chunks])


def chunk_size(n_logits: int, device: torch.device) -> int:
    """Return how many predictions of so many logits each a device computes at once."""
    return max(1, at_once(device).logits // n_logits)
