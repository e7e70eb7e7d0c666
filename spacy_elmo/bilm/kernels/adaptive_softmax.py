"""The adaptive softmax (Grave et al. 2017) for training in bfloat16 on a CPU.

It differs from autograd through `torch.nn.AdaptiveLogSoftmaxWithLoss` in two ways:
- matrices are multiplied in bfloat16, and their sums are float32;
- the forward pass also computes the gradient, while the logits of a few rows lie in the
  processor's cache. So logits are never stored, nor computed twice.

Shapes: N predictions, M the same number rounded up, R rows of a chunk, H projection, K
width of a cluster's vectors, V words of the head or of a cluster.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

# Logits of a chunk, and bounds of its rows (docs/kernels.md).
LOGITS = 1 << 21
LEAST_ROWS, MOST_ROWS = 64, 512
LEAST_P = torch.finfo(torch.float32).tiny


def can_run(h_NH: Tensor) -> bool:
    """Return whether a model trains on a CPU under bfloat16 autocast.

    Args:
        h_NH: The outputs that words are predicted from.
    """
    return (
        torch.is_grad_enabled()
        and h_NH.device.type == "cpu"
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") is torch.bfloat16
    )


def log_p(
    h_NH: Tensor,
    target_N: Tensor,
    cutoffs: Sequence[int],
    head: tuple[Tensor, Tensor],
    clusters: Sequence[tuple[Tensor, Tensor]],
) -> Tensor:
    """Return the log-probability of every target, (N,) in float32.

    Args:
        h_NH: Outputs of the top layer.
        target_N: Numbers of the words to predict.
        cutoffs: Number of the first word of each cluster.
        head: Weight (V, H) and bias (V,). They have one row for each frequent word,
            then one for each cluster.
        clusters: Projection (K, H) and word vectors (V, K) of each cluster.
    """
    flat = [weight for cluster in clusters for weight in cluster]
    with torch.autocast("cpu", enabled=False):
        result: Tensor = _AdaptiveLogP.apply(
            h_NH.float(), target_N, tuple(cutoffs), *head, *flat
        )
    return result


class _AdaptiveLogP(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h_NH: Tensor, target_N: Tensor, cutoffs: Any, *weights: Tensor
    ) -> Tensor:
        log_p_N, *gradients = _compute(h_NH, target_N, cutoffs, weights, None)
        ctx.save_for_backward(h_NH, target_N, *weights, *gradients)
        ctx.cutoffs, ctx.n_weights = cutoffs, len(weights)
        return log_p_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_N: Tensor) -> Any:
        h_NH, target_N, *rest = ctx.saved_tensors
        weights, gradients = rest[: ctx.n_weights], rest[ctx.n_weights :]
        if bool((d_N == d_N[:1]).all()):  # the loss is a sum or a mean, as in training
            scale = d_N[0] if len(d_N) else 0.0  # there may be no word to predict
            gradients = [gradient * scale for gradient in gradients]
        else:
            _, *gradients = _compute(h_NH, target_N, ctx.cutoffs, weights, d_N)
        return gradients[0], None, None, *gradients[1:]


def _compute(
    h_NH: Tensor,
    target_N: Tensor,
    cutoffs: tuple[int, ...],
    weights: Sequence[Tensor],
    d_N: Tensor | None,
) -> list[Tensor]:
    """Return the log-probabilities, (N,), and gradients of their sum weighted by d_N
    (None for ones): with respect to h_NH and to each of the weights."""
    head_weight, head_bias, *flat = weights
    cluster_N = torch.bucketize(target_N, torch.tensor(cutoffs), right=True)
    in_head_N = torch.where(cluster_N == 0, target_N, cutoffs[0] + cluster_N - 1)
    log_p_N, d_h_NH, *d_head = _part(h_NH, in_head_N, head_weight, head_bias, d_N)
    d_weights: list[Any] = [*d_head]
    for i, (project_KH, words_VK) in enumerate(zip(flat[::2], flat[1::2])):
        rows = (cluster_N == i + 1).nonzero()[:, 0]
        n, low_KH = len(rows), project_KH.bfloat16()
        x_MH = round_up(h_NH[rows].bfloat16())
        low_NK = torch.mm(x_MH, low_KH.t())[:n]
        in_cluster_N = target_N[rows] - cutoffs[i]
        d_rows_N = None if d_N is None else d_N[rows]
        part_N, d_x_NK, d_words_VK, _ = _part(
            low_NK.float(), in_cluster_N, words_VK, None, d_rows_N
        )
        log_p_N[rows] += part_N
        d_x_MK = round_up(d_x_NK.bfloat16())
        d_h_NH.index_add_(0, rows, torch.mm(d_x_MK, low_KH)[:n].float())
        d_weights += [torch.mm(d_x_MK.t(), x_MH).float(), d_words_VK]
    return [log_p_N, d_h_NH, *d_weights]


def _part(
    x_NK: Tensor,
    target_N: Tensor,
    weight_VK: Tensor,
    bias_V: Tensor | None,
    d_N: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Compute one softmax, of the head or of a cluster. Return its log-probabilities,
    (N,), and gradients of their weighted sum with respect to x, weight and bias.

    The gradient of log p(t) with respect to the logits is onehot(t) - p. Matrix
    multiplications sum up the second term. The first is added in float32 at the end.

    Args:
        x_NK: Inputs.
        target_N: The row of the weight to predict from each input.
        weight_VK: Weight.
        bias_V: Bias, None for none.
        d_N: Weight of each log-probability in the sum, None for ones.
    """
    low_VK, low_NK = weight_VK.bfloat16(), x_NK.bfloat16()
    low_V = None if bias_V is None else bias_V.bfloat16()
    log_p_N = x_NK.new_empty(len(x_NK))
    d_x_NK = torch.empty_like(x_NK)
    d_weight_VK = torch.zeros_like(weight_VK)
    d_bias_V = None if bias_V is None else torch.zeros_like(bias_V)
    size = max(LEAST_ROWS, min(MOST_ROWS, LOGITS // len(weight_VK)))
    for first in range(0, len(x_NK), size):
        rows = slice(first, first + size)
        target_R1 = target_N[rows, None]
        n, x_RK = len(target_R1), round_up(low_NK[rows])
        logits_RV = torch.mm(x_RK, low_VK.t())
        if low_V is not None:
            logits_RV += low_V
        p_RV = torch.softmax(logits_RV, dim=1)
        p_RV[n:] = 0
        log_p_N[rows] = _log_p(logits_RV[:n], p_RV[:n], target_R1)
        if d_N is not None:
            p_RV[:n] *= d_N[rows, None].to(p_RV.dtype)
        d_x_NK[rows] = torch.mm(p_RV, low_VK)[:n]
        d_weight_VK -= torch.mm(p_RV.t(), x_RK)
        if d_bias_V is not None:
            d_bias_V -= p_RV.sum(0, dtype=torch.float32)
    ones_N = torch.ones_like(log_p_N) if d_N is None else d_N
    d_x_NK = weight_VK[target_N] * ones_N[:, None] - d_x_NK
    d_weight_VK.index_add_(0, target_N, x_NK * ones_N[:, None])
    if d_bias_V is not None:
        d_bias_V.index_add_(0, target_N, ones_N)
    return log_p_N, d_x_NK, d_weight_VK, d_bias_V


def round_up(x_MK: Tensor) -> Tensor:
    """Append rows of zeros until the number of rows is one of four sizes an octave.

    oneDNN compiles code for each size that it meets, and keeps it (docs/kernels.md).
    """
    M = len(x_MK)
    missing = 1 if M == 1 else -M % (1 << max(2, M.bit_length() - 3))
    return F.pad(x_MK, (0, 0, 0, missing)) if missing else x_MK


def _log_p(logits_RV: Tensor, p_RV: Tensor, target_R1: Tensor) -> Tensor:
    """Return log p of the targets, (R,), in float32."""
    p_R = p_RV.gather(1, target_R1)[:, 0].float()
    log_p_R = p_R.log()
    # Below e^-87 p is 0, also in bfloat16. There log p is computed from the likeliest
    # word: log p(t) = logit(t) - logit(word) + log p(word).
    rows_U = (p_R < LEAST_P).nonzero()[:, 0]
    if len(rows_U):
        highest_U, word_U = logits_RV[rows_U].max(dim=1)
        logit_U = logits_RV[rows_U].gather(1, target_R1[rows_U])[:, 0]
        p_highest_U = p_RV[rows_U, word_U].float()
        log_p_R[rows_U] = logit_U.float() - highest_U.float() + p_highest_U.log()
    return log_p_R
