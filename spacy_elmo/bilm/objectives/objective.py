"""The protocol of a training objective, and its file beside the weights of a biLM.

Shapes: N predictions, H projection, V vocabulary.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ...errors import Errors
from ...files import reading
from ...machine import batch_limits
from ...registry import registry
from ..arrays import check_arrays, read_with_checksum, write_with_checksum

FILE = "softmax.safetensors"  # beside the weights
_HEADER = "objective"  # in that file: JSON with the name and the settings


class Objective(nn.Module):
    """A distribution over the vocabulary that a biLM is trained with.

    Both directions share it. To add one, write a subclass and a registered function, in
    a package with an entry point in the group `spacy_elmo_objectives`:

        class MyObjective(Objective):
            name = "my-package.MyObjective.v1"
            ...

        @registry.objectives(MyObjective.name)
        @validate_call
        def my_objective(temperature: float = 1.0) -> MakeObjective:
            return lambda width, n_words: MyObjective(width, n_words, temperature)

    `[training.objective]` names it. The trainer calls the methods of this class. A
    saved model stores its name and settings, and is loaded through the registry.

    Attributes:
        name: The registered name.
        sparse_gradients: Whether the gradients of the parameters are sparse tensors.
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
        """Return the log-probability of every target, (N,).

        In evaluation mode it must be exact over the whole vocabulary, so that the
        perplexities of different objectives can be compared. In training mode it may be
        any score whose mean is to be maximized.

        Args:
            h_NH: Outputs of the top layer.
            target_N: Numbers of the words to predict.
        """
        raise NotImplementedError

    def vectors(self) -> Tensor:
        """Return one vector for each word of the vocabulary, (V, H)."""
        raise NotImplementedError

    def begin_step(self, seed: int, step: int, targets: np.ndarray) -> None:
        """Prepare for a training step.

        Args:
            seed: Seed of the run. Draw random numbers in this method only, from the
                seed and the step.
            step: Number of the step.
            targets: The distinct words that all processes predict in it, sorted.
        """

    def prepare(self, target_N: np.ndarray, device: torch.device) -> Any:
        """Compute on the CPU what `forward` could only ask a GPU for. The result is the
        third argument of `forward`, with the same targets. If it is None, there is no
        third argument.

        Args:
            target_N: Numbers of the words to predict.
            device: The device of the model.
        """
        return None

    @property
    def logits_per_prediction(self) -> int:
        """Mean number of logits that training computes for a prediction, for memory
        plans."""
        return self.n_words

    def settings(self) -> dict[str, Any]:
        """Return the arguments of the registered function, in types that JSON has."""
        return {}

    def describe(self) -> str:
        """Return the objective's description for messages."""
        return self.name


# What a registered function returns: it takes the width and the number of words.
MakeObjective = Callable[[int, int], Objective]


def in_chunks(
    log_p: Callable[..., Tensor],
    h_NH: Tensor,
    target_N: Tensor,
    n_logits: int,
    prepared: Iterable[Any] | None = None,
) -> Tensor:
    """Return log_p(h_NH, target_N), computed for some predictions at a time.

    In training each chunk is computed again for its gradient. That takes four matrix
    multiplications in place of three, and keeps the logits of one chunk in memory.

    Args:
        log_p: Computes the log-probabilities of a chunk, (chunk,).
        h_NH: Outputs of the top layer.
        target_N: Numbers of the words to predict.
        n_logits: Number of logits of a prediction.
        prepared: A third argument of log_p for each chunk; None for no such argument.
    """
    size = chunk_size(n_logits, h_NH.device)
    parts: list[Iterable[Any]] = [h_NH.split(size), target_N.split(size)]
    chunks = zip(*parts, *([] if prepared is None else [prepared]))
    if len(h_NH) <= size or not torch.is_grad_enabled():
        return torch.cat([log_p(*chunk) for chunk in chunks])
    again = partial(checkpoint, log_p, use_reentrant=False, preserve_rng_state=False)
    return torch.cat([again(*chunk) for chunk in chunks])


def chunk_size(n_logits: int, device: torch.device) -> int:
    """Return the number of predictions that a device computes at once.

    Args:
        n_logits: Number of logits of a prediction.
        device: The device.
    """
    return max(1, batch_limits(device).logits // n_logits)


# -- files ------------------------------------------------------------------------


def save(objective: Objective, path: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write an objective to a file, with floating-point arrays in a dtype."""
    arrays = {
        name: tensor.to(
            "cpu", dtype if tensor.is_floating_point() else None
        ).contiguous()
        for name, tensor in objective.state_dict().items()
    }
    header = {"name": objective.name, "settings": objective.settings()}
    write_with_checksum(path, arrays, _HEADER, header)


def load(path: Path, width: int, n_words: int) -> Objective:
    """Read an objective.

    Args:
        path: The file.
        width: Size of the vectors that are predicted from, H.
        n_words: Size of the vocabulary, V.

    Raises:
        ValueError: [EL002] The file is damaged, its objective is not registered, or has
            other settings. Also as `check_arrays`.
    """
    with reading(path, Errors.EL002, format="an objective"):
        header, arrays = read_with_checksum(path, _HEADER)
        if "name" not in header:
            raise ValueError("it does not name its objective")
        make = registry.objectives.get(header["name"])(**header["settings"])
        with torch.device("meta"):  # shapes, but no memory yet
            expected = make(width, n_words).state_dict()
    check_arrays(path, arrays, expected)
    objective: Objective = make(width, n_words)
    objective.load_state_dict(arrays)
    return objective
