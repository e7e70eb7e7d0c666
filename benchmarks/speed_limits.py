"""A large matrix product, which a model's speed is compared with.

Shapes: C cells, H projection, S filters.
"""

import torch

from spacy_elmo.bilm import BiLM, BiLMConfig
from spacy_elmo.machine import Precision

from .speed import Run, Sentences, in_turn


@torch.no_grad()
def matrix_peak(
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    precision: Precision = "float32",
) -> float:
    """Return FLOP a second of torch's own large product in a precision."""
    runs: dict[str, Run] = {"torch": large_product(device, dtype, precision)}
    return max(in_turn(runs, 3).values())


def large_product(
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    precision: Precision = "float32",
) -> Run:
    """Return a run of torch's own large product; its units are FLOP."""
    size = 8192 if device.type == "cuda" else 2048
    if precision == "half":
        dtype = torch.float16 if device.type == "cuda" else torch.bfloat16
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))

    def product() -> float:
        a @ b
        return 2.0 * size**3

    return product


def flops_per_token(bilm: BiLM, sentences: Sentences, batch_size: int) -> float:
    """Return FLOP of a token's matrix multiplications: of the LSTMs, boundaries
    included, and of the token encoder for the distinct words of each batch, each of
    its own length."""
    H, C = bilm.config.projection_dim, bilm.config.hidden_dim
    lstm = 2 * 2.0 * bilm.config.n_layers * (2 * H * 4 * C + C * H)
    total, n_tokens = 0.0, 0
    for start in range(0, len(sentences), batch_size):
        batch = sentences[start : start + batch_size]
        tokens = sum(map(len, batch))
        total += encoder_flops(bilm.config, batch) + (tokens + 2 * len(batch)) * lstm
        n_tokens += tokens
    return total / n_tokens


def encoder_flops(sizes: BiLMConfig, batch: Sentences) -> float:
    """Return FLOP of the token encoder for the distinct words of a batch."""
    H, S = sizes.projection_dim, sizes.n_filters
    per_word = 2.0 * (2 * S * S * sizes.n_highway + S * H)
    per_window = 2.0 * sum(width * sizes.char_dim * n for width, n in sizes.filters)
    words = {word for sentence in batch for word in sentence}
    marks = 3  # of begin and end of a word, and one window of padding
    windows = sum(
        min(len(word.encode("utf-8", "replace")) + marks, sizes.max_characters)
        for word in words
    )
    return len(words) * per_word + windows * per_window
