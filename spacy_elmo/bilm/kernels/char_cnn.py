"""The char-CNN by one matrix multiplication with all filters, words sorted by length.

On a CPU that is three times as fast as a convolution for each width over the length of
the longest word.

Shapes: V distinct words sorted by length, C characters, d width of a character,
S filters, W width of the widest filter.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .matmul import TorchMatmul

WORDS_AT_ONCE = 32  # of like length


def run(
    char_embedding: Tensor,
    conv_weights: Sequence[Tensor],
    filters: TorchMatmul,
    ids_VC: Tensor,
) -> Tensor:
    """Return every filter's maximum over all positions, before the bias, (V, S), of
    words sorted by `lengths`. filters: multiply by `join_filters(*conv_weights)`."""
    W, C = max(weight.shape[2] for weight in conv_weights), ids_VC.shape[1]
    length_V = lengths(ids_VC)
    # One window of padding is enough. Words without room for it are convolved.
    n_short = int((length_V <= C - W).sum())
    largest = []
    for words in torch.arange(n_short).split(WORDS_AT_ONCE) if n_short else ():
        longest = int(length_V[words[-1]]) + W
        windows = ids_VC[words, :longest].unfold(1, W, 1)
        chars = F.embedding(windows, char_embedding).flatten(2)
        rows = chars.flatten(0, 1)
        found = filters.at(len(rows)).linear(rows)
        largest.append(found.unflatten(0, chars.shape[:2]).amax(dim=1))
    if n_short < len(ids_VC):
        chars_VdC = F.embedding(ids_VC[n_short:], char_embedding).transpose(1, 2)
        convolved = [F.conv1d(chars_VdC, w).amax(dim=2) for w in conv_weights]
        largest.append(torch.cat(convolved, dim=1))
    return torch.cat(largest)


def lengths(ids_VC: Tensor) -> Tensor:
    """Return the characters of words without the run of equal ids that they end in,
    their padding, (V,): windows within it are all alike."""
    differs_VC = ids_VC != ids_VC[:, -1:]
    numbers_C = torch.arange(1, ids_VC.shape[1] + 1, device=ids_VC.device)
    return (differs_VC * numbers_C).amax(dim=1)


def join_filters(*conv_weights: Tensor) -> Tensor:
    """Return all filters as one matrix, (W * d, S): a column a filter, narrow ones
    filled up with zeros."""
    widest = max(weight.shape[2] for weight in conv_weights)
    columns = []
    for weight in conv_weights:
        n, char_dim, width = weight.shape
        rows = weight.permute(2, 1, 0).reshape(width * char_dim, n)
        columns.append(F.pad(rows, (0, 0, 0, (widest - width) * char_dim)))
    return torch.cat(columns, dim=1)
