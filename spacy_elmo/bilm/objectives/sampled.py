"""The log-uniform sampled softmax (Jean et al. 2015), with which the published biLMs
were trained. Its training costs the same for any vocabulary.

In training the probability of a target is taken among itself and S sampled words. The
logarithm of a word's expected count in the sample is subtracted from its logit, so that
the gradient tends to that of the full softmax. A sampled word that equals the target is
left out. In evaluation mode it is the full softmax, exactly.

Shapes: N predictions, H projection, V vocabulary, S sampled words, R rows in use.
"""

from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field, validate_call
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...errors import Errors
from ...machine import to_device
from ...registry import registry
from .full import FullSoftmax
from .objective import MakeObjective, in_chunks


def sample_log_uniform(
    rng: np.random.Generator, n_words: int, n_samples: int
) -> tuple[np.ndarray, int]:
    """Draw words until there are n_samples distinct ones. Words are numbered from 0 by
    falling frequency, and P(w) = log((w + 2) / (w + 1)) / log(V + 1), as by Zipf's law.

    Args:
        rng: The source of random numbers.
        n_words: Size of the vocabulary, V.
        n_samples: Number of distinct words, S.

    Returns:
        The distinct words, sorted, (S,) in int64; the number of draws.
    """
    drawn = np.empty(0, dtype=np.int64)
    while True:
        uniform = rng.random(2 * n_samples)
        more = np.exp(uniform * np.log(n_words + 1.0)).astype(np.int64) - 1
        drawn = np.concatenate([drawn, np.minimum(more, n_words - 1)])
        distinct, first = np.unique(drawn, return_index=True)
        if len(distinct) >= n_samples:
            last = np.partition(first, n_samples - 1)[n_samples - 1]
            return distinct[first <= last], int(last) + 1


class SampledSoftmax(FullSoftmax):
    """A full softmax that is trained on a sample of the words. All predictions of a
    step share one sample.

    Gradients are sparse: they have the rows that a step uses. So neither the matrix
    multiplication nor the step of the optimizer grows with the vocabulary.

    Attributes:
        sampled_S: The words that were sampled for this step, sorted.
        n_draws: Number of draws until there were S distinct words.

    Raises:
        ValueError: [EL045] There are not more words than samples.
    """

    name = "spacy-elmo.SampledSoftmax.v1"
    sparse_gradients = True

    def __init__(self, width: int, n_words: int, n_samples: int) -> None:
        super().__init__(width, n_words)
        if n_samples >= n_words:
            raise Errors.EL045(samples=n_samples, words=n_words)
        self.n_samples = n_samples
        self.sampled_S = torch.empty(0, dtype=torch.int64)
        self._rows_R = torch.empty(0, dtype=torch.int64)
        self.n_draws = 0

    def begin_step(self, seed: int, step: int, targets: np.ndarray) -> None:
        """Sample the words of a step. Every process of a run draws the same words."""
        rng = np.random.Generator(np.random.Philox(key=[seed, step]))
        sampled, self.n_draws = sample_log_uniform(rng, self.n_words, self.n_samples)
        device = self.weight.device
        self.sampled_S = to_device(sampled, device)
        self._rows_R = to_device(np.union1d(sampled, targets), device)

    def forward(self, h_NH: Tensor, target_N: Tensor) -> Tensor:
        """Return the log-probability of every target, (N,); in training among the
        sampled words."""
        if not self.training:
            return super().forward(h_NH, target_N)
        rows_R = self._rows_R
        weight_RH = _Rows.apply(self.weight, rows_R)
        bias_R = _Rows.apply(self.bias, rows_R) - self.log_expected(rows_R)
        target_N = torch.searchsorted(rows_R, target_N)
        sampled_S = torch.searchsorted(rows_R, self.sampled_S)

        def log_p(h: Tensor, target: Tensor) -> Tensor:
            true = (h * weight_RH[target]).sum(1) + bias_R[target]
            others = torch.addmm(bias_R[sampled_S], h, weight_RH[sampled_S].t())
            others = others.float()  # thousands of terms are summed
            hit = target[:, None] == sampled_S
            others = others.masked_fill(hit, -torch.inf)
            return true - torch.logaddexp(true, torch.logsumexp(others, dim=1))

        return in_chunks(log_p, h_NH, target_N, self.n_samples)

    def log_expected(self, word: Tensor) -> Tensor:
        """Return log E[count in the sample] = log(1 - (1 - P)^draws) for each word."""
        word = word.double()
        p = torch.log1p(1 / (word + 1)) / np.log(self.n_words + 1.0)
        return torch.log(-torch.expm1(self.n_draws * torch.log1p(-p))).float()

    @property
    def logits_per_prediction(self) -> int:
        """Number of logits that training computes for a prediction."""
        return self.n_samples

    def settings(self) -> dict[str, Any]:
        """Return the number of samples by the name of the argument."""
        return {"samples": self.n_samples}

    def describe(self) -> str:
        """Return the name and the number of samples."""
        return f"sampled softmax, {self.n_samples:,} samples"


@registry.objectives(SampledSoftmax.name)
@validate_call
def sampled_softmax(
    samples: Annotated[int, Field(ge=1)] = 8192,
) -> MakeObjective:
    """Make a sampled softmax, which costs the same for any vocabulary.

    Args:
        samples: Number of words drawn for a step.
    """
    return lambda width, n_words: SampledSoftmax(width, n_words, samples)


class _Rows(torch.autograd.Function):
    """Rows of an array. The gradient of the array is sparse and has these rows."""

    @staticmethod
    def forward(ctx: Any, array: Tensor, rows_R: Tensor) -> Tensor:
        ctx.save_for_backward(rows_R)
        ctx.shape = array.shape
        return array[rows_R]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (rows_R,) = ctx.saved_tensors
        sparse = torch.sparse_coo_tensor(
            rows_R[None], gradient, ctx.shape, is_coalesced=True, check_invariants=False
        )
        return sparse, None
