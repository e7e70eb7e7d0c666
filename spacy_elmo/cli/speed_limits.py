"""What a model's speed is compared with: a large product, and reading its weights.

Shapes: C cells, H projection, S filters.
"""

from collections.abc import Mapping, Sequence

import torch

from ..bilm import BiLM, BiLMConfig
from ..machine import Precision
from .speed import Run, Sentences, in_turn, on_threads

BYTES = {"float32": 4, "half": 2}  # of a weight


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


def sentence_floors(
    sizes: BiLMConfig, sentence: Sequence[str], peaks: Mapping[str, float]
) -> dict[str, float]:
    """Return the milliseconds that a sentence takes at least: each step reads all
    recurrent weights of both directions, as fast as one thread here reads so much as
    a layer has; and, but for "warm", large multiplications of the token encoder, by the
    FLOP a second of each precision."""
    H, C = sizes.projection_dim, sizes.hidden_dim
    n_weights = H * 4 * C + (C * H if sizes.lstm_projection else 0)
    reads = (len(sentence) + 2) * 2 * sizes.n_layers
    encoder, floors = encoder_flops(sizes, [list(sentence)]), {}
    for precision, peak in peaks.items():
        n_bytes = n_weights * BYTES[precision]
        with on_threads(1):
            reading = 1000 * reads * n_bytes / read_bandwidth(n_bytes)
        if precision == "float32":
            floors["warm"] = reading
        kind = "cold" if precision == "float32" else precision
        floors[kind] = reading + 1000 * encoder / peak
    return floors


def read_bandwidth(n_bytes: int) -> float:
    """Return the bytes a second at which a thread reads so many, again and again."""
    values = torch.ones(n_bytes // 4)
    times = max(1, (64 << 20) // n_bytes)

    def dot() -> float:
        for _ in range(times):
            torch.dot(values, values)  # which reads each value once from memory
        return float(times * n_bytes)

    def total() -> float:
        for _ in range(times):
            values.sum()
        return float(times * n_bytes)

    return max(in_turn({"dot": dot, "sum": total}, 5).values())
