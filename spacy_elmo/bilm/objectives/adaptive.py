"""The adaptive softmax (Grave et al. 2017): rare words are in clusters, and have narrow
vectors.

Shapes: N predictions, R of them in a cluster, H projection, K width of a cluster's
vectors, V words.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from pydantic import validate_call
from torch import Tensor, nn

from ...errors import Errors
from ...machine import to_device
from ...registry import registry
from ..kernels import adaptive_softmax as kernel
from .full import FullSoftmax
from .objective import MakeObjective, Objective, chunk_size, in_chunks

# The vectors of each cluster are so many times narrower than those before, as by
# default in PyTorch.
DIV_VALUE = 4
# Assumed share of the words of a text that are outside the head, for memory plans.
RARE = 0.1


class AdaptiveSoftmax(Objective):
    """An adaptive softmax: frequent words are in the head, rarer ones in clusters of
    falling width. It is much cheaper to train than a full softmax, and still a
    distribution over all words.

    Args:
        width: Size of the vectors that are predicted from, H.
        n_words: Size of the vocabulary, V.
        cutoffs: Number of the first word of each cluster after the head.

    Raises:
        ValueError: [EL029] The cutoffs don't rise within the vocabulary, or are too
            many for the width.
    """

    name = "spacy-elmo.AdaptiveSoftmax.v1"

    def __init__(self, width: int, n_words: int, cutoffs: Sequence[int]) -> None:
        super().__init__(width, n_words)
        rising = all(a < b for a, b in pairwise([0, *cutoffs, n_words]))
        if not rising or width // DIV_VALUE ** len(cutoffs) < 1:
            raise Errors.EL029(cutoffs=list(cutoffs), width=width)
        self.clusters = nn.AdaptiveLogSoftmaxWithLoss(
            width,
            n_words,
            list(cutoffs),
            div_value=DIV_VALUE,
            head_bias=True,
            dtype=torch.float32,
        )

    def prepare(self, target_N: np.ndarray, device: torch.device) -> list[list[Tensor]]:
        """Return, for each chunk of predictions and each cluster, the rows whose
        targets are in the cluster. One copy sends them all to the device."""
        size = chunk_size(self.logits_per_prediction, device)
        cluster_N = np.digitize(target_N, self.cutoffs)
        rows = [
            np.flatnonzero(cluster_N[first : first + size] == cluster)
            for first in range(0, max(1, len(target_N)), size)
            for cluster in range(1, len(self.cutoffs) + 1)
        ]
        parts = to_device(np.concatenate(rows), device).split([len(r) for r in rows])
        n_clusters = len(self.cutoffs)
        return [
            list(parts[first : first + n_clusters])
            for first in range(0, len(parts), n_clusters)
        ]

    def forward(
        self, h_NH: Tensor, target_N: Tensor, rows: list[list[Tensor]] | None = None
    ) -> Tensor:
        """Return the log-probability of every target, (N,).

        Args:
            h_NH: Outputs of the top layer.
            target_N: Numbers of the words to predict.
            rows: The result of `prepare` for these targets. Without it the CPU waits
                for a GPU once.
        """
        if kernel.can_run(h_NH):
            tail = list(self.clusters.tail.parameters())
            clusters = list(zip(tail[::2], tail[1::2]))
            head = self.clusters.head.weight, self.clusters.head.bias
            return kernel.log_p(h_NH, target_N, self.cutoffs, head, clusters)
        if rows is None:
            rows = self.prepare(target_N.cpu().numpy(), h_NH.device)
        return in_chunks(self._log_p, h_NH, target_N, self.logits_per_prediction, rows)

    def _log_p(self, h_NH: Tensor, target_N: Tensor, rows: list[Tensor]) -> Tensor:
        """Return log-probabilities as `torch.nn.AdaptiveLogSoftmaxWithLoss`, but
        without asking the device for the rows of each cluster, which are given."""
        # Inputs and weights must have one dtype.
        with torch.autocast(h_NH.device.type, enabled=False):
            h_NH = h_NH.float()
            log_p_N, in_head_N = h_NH.new_zeros(len(h_NH)), target_N.clone()
            for i, (low, rows_R) in enumerate(zip(self.cutoffs, rows)):
                if not len(rows_R):
                    continue
                in_cluster_R1 = (target_N[rows_R] - low)[:, None]
                logits_RV = self.clusters.tail[i](h_NH.index_select(0, rows_R))
                found_R1 = torch.log_softmax(logits_RV, 1).gather(1, in_cluster_R1)
                log_p_N.index_copy_(0, rows_R, found_R1[:, 0])
                in_head_N.index_fill_(0, rows_R, self.cutoffs[0] + i)
            head_NV = torch.log_softmax(self.clusters.head(h_NH), 1)
            log_p_N += head_NV.gather(1, in_head_N[:, None])[:, 0]
        return log_p_N

    def vectors(self) -> Tensor:
        """Return one vector for each word, (V, H), projected if it is in a cluster."""
        parts = [self.clusters.head.weight[: self.clusters.shortlist_size]]
        for cluster in self.clusters.tail:
            project_KH, words_CK = cluster.parameters()
            parts.append(words_CK @ project_KH)
        return torch.cat(parts).detach()

    @property
    def cutoffs(self) -> list[int]:
        """Number of the first word of each cluster after the head."""
        return list(self.clusters.cutoffs[:-1])

    @property
    def logits_per_prediction(self) -> int:
        """Mean number of logits that are computed for a prediction, for memory plans:
        all of the head, and RARE of the clusters."""
        head = self.cutoffs[0]
        return int(head + RARE * (self.n_words - head))

    def settings(self) -> dict[str, Any]:
        """Return the cutoffs by the name of the argument."""
        return {"cutoffs": self.cutoffs}

    def describe(self) -> str:
        """Return the name and the cutoffs."""
        return f"adaptive softmax, cut at {', '.join(f'{c:,}' for c in self.cutoffs)}"


@registry.objectives(AdaptiveSoftmax.name)
@validate_call
def adaptive_softmax(cutoffs: list[int]) -> MakeObjective:
    """Make an adaptive softmax, or a full one if no cutoff is inside the vocabulary.

    Args:
        cutoffs: Number of the first word of each cluster after the head. Cutoffs beyond
            the vocabulary are left out.
    """

    def make(width: int, n_words: int) -> Objective:
        inside = [cutoff for cutoff in cutoffs if cutoff < n_words]
        if not inside:
            return FullSoftmax(width, n_words)
        return AdaptiveSoftmax(width, n_words, inside)

    return make
