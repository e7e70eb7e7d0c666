"""Output distributions over a vocabulary, shared by both directions.

Each gives the exact log-probability of a target over the whole vocabulary, so the
perplexity of any of them is an honest one. Words are numbered by frequency. A full one
can be trained on sampled words: sampled_softmax.py.

Shapes: N predictions, H projection, V vocabulary.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as serialize
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ...errors import Errors

FILE = "softmax.safetensors"
# Bound of predictions x words computed at once: 128 MB of float32.
CHUNK = 1 << 25
# Each cluster's words have vectors so many times narrower than the one before.
DIV_VALUE = 4


def in_chunks(
    log_p: Callable[[Tensor, Tensor], Tensor],
    h_NH: Tensor,
    target_N: Tensor,
    n_logits: int,
) -> Tensor:
    """log_p of a few rows at a time, computed anew for the gradient: a fourth product
    to three, and never more than CHUNK logits in memory, however large N and V are."""
    size = max(1, CHUNK // n_logits)
    if len(h_NH) <= size or not torch.is_grad_enabled():
        parts = [log_p(h, t) for h, t in zip(h_NH.split(size), target_N.split(size))]
    else:
        parts = [
            checkpoint(log_p, h, t, use_reentrant=False, preserve_rng_state=False)
            for h, t in zip(h_NH.split(size), target_N.split(size))
        ]
    return torch.cat(parts)


class FullSoftmax(nn.Module):
    """softmax(h W + b)."""

    def __init__(self, width: int, n_words: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_words, width))
        self.bias = nn.Parameter(torch.zeros(n_words))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, h_NH: Tensor, target_N: Tensor) -> Tensor:
        """RETURNS: log-probability of every target, (N,)."""

        def log_p(h: Tensor, target: Tensor) -> Tensor:
            logits = F.linear(h, self.weight, self.bias).float()
            return -F.cross_entropy(logits, target, reduction="none")

        return in_chunks(log_p, h_NH, target_N, len(self.weight))

    def vectors(self) -> Tensor:
        """Of each word what h is multiplied by: one vector in all contexts, (V, H)."""
        return self.weight.detach()


class AdaptiveSoftmax(nn.Module):
    """Frequent words in a head, rarer ones in clusters of ever smaller width
    (Grave et al. 2017): much cheaper to train, and still a distribution over all."""

    def __init__(self, width: int, n_words: int, cutoffs: Sequence[int]) -> None:
        super().__init__()
        self.clusters = nn.AdaptiveLogSoftmaxWithLoss(
            width, n_words, list(cutoffs), div_value=DIV_VALUE, head_bias=True
        )

    def forward(self, h_NH: Tensor, target_N: Tensor) -> Tensor:
        """RETURNS: log-probability of every target, (N,)."""

        def log_p(h: Tensor, target: Tensor) -> Tensor:
            # torch's clusters can't be of two precisions.
            with torch.autocast(h.device.type, enabled=False):
                output: Tensor = self.clusters(h.float(), target).output
            return output

        return in_chunks(log_p, h_NH, target_N, self.n_logits)

    def vectors(self) -> Tensor:
        """As of a full softmax; those of clusters are projected to H dimensions."""
        parts = [self.clusters.head.weight[: self.clusters.shortlist_size]]
        for cluster in self.clusters.tail:
            project_KH, words_CK = cluster.parameters()
            parts.append(words_CK @ project_KH)
        return torch.cat(parts).detach()

    @property
    def n_logits(self) -> int:
        """About how many a prediction takes: of the head, and of a cluster for each
        rare word, of which running text has a tenth."""
        first, n_words = self.clusters.cutoffs[0], self.clusters.cutoffs[-1]
        return int(first + 0.1 * (n_words - first))


Softmax = FullSoftmax | AdaptiveSoftmax


def make_softmax(width: int, n_words: int, cutoffs: Sequence[int] = ()) -> Softmax:
    """cutoffs: first word of each cluster after the head; those beyond the vocabulary
    are left out, and with none left the softmax is a full one.
    Raises ValueError [EL029] if they don't rise, or are too many for the width."""
    inside = [cutoff for cutoff in cutoffs if cutoff < n_words]
    rising = all(a < b for a, b in pairwise([0, *inside]))
    if not rising or width // DIV_VALUE ** len(inside) < 1:
        raise ValueError(Errors.EL029.format(cutoffs=list(cutoffs), width=width))
    return (
        AdaptiveSoftmax(width, n_words, inside)
        if inside
        else FullSoftmax(width, n_words)
    )


def save(softmax: Softmax, path: Path, dtype: torch.dtype = torch.float32) -> None:
    cutoffs: list[int] = []
    if isinstance(softmax, AdaptiveSoftmax):
        cutoffs = list(softmax.clusters.cutoffs[:-1])
    arrays = {
        name: tensor.detach().cpu().to(dtype).contiguous()
        for name, tensor in softmax.state_dict().items()
    }
    arrays["cutoffs"] = torch.tensor(cutoffs, dtype=torch.int64)
    write_safetensors(path, arrays)


def write_safetensors(path: Path, arrays: dict[str, Tensor]) -> None:
    # Not save_file: it makes a file that its owner alone may read, and reports a full
    # disk as something else than an OSError.
    path.write_bytes(serialize(arrays))


def load(path: Path, width: int, n_words: int) -> Softmax:
    """Raises ValueError [EL007, EL008, EL010, EL029]."""
    try:
        arrays = load_file(path)
        cutoffs = [int(cutoff) for cutoff in arrays.pop("cutoffs").tolist()]
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(Errors.EL010.format(path=path, error=error)) from error
    softmax = make_softmax(width, n_words, cutoffs)
    expected = {
        name: tuple(array.shape) for name, array in softmax.state_dict().items()
    }
    found = {name: tuple(array.shape) for name, array in arrays.items()}
    for name, shape in expected.items():
        if found.get(name) != shape:
            raise ValueError(
                Errors.EL007.format(
                    path=path, name=name, found=found.get(name), expected=shape
                )
            )
    for name in expected:
        if not torch.isfinite(arrays[name]).all():
            raise ValueError(Errors.EL008.format(name=name, path=path))
    softmax.load_state_dict({name: arrays[name].float() for name in expected})
    return softmax
