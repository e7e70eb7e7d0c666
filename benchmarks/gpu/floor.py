"""Operations and bytes of a token, a device's rates, and the speed that they allow.

Shapes: H projection, C cells, L layers.
"""

from functools import cache

import torch

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.machine import float32_mode

from ..speed import in_turn

# Of the vendor's datasheets for the SXM parts, without sparsity: FLOP/s and bytes/s.
DATASHEET = {
    "H100": {"float32": 67e12, "tf32": 495e12, "half": 989e12, "bytes": 3.35e12},
    "H200": {"float32": 67e12, "tf32": 495e12, "half": 989e12, "bytes": 4.8e12},
}
LAUNCH = 5e-6  # seconds from PyTorch to a kernel, as is usual
LAUNCHES = 3  # of a step of one layer: recurrent product, cell, projection
STEPS_OF = 22  # a sentence of 20 tokens, with its boundaries


def lstm_flops(config: BiLMConfig) -> float:
    """Return FLOP of a token's LSTMs, both directions, forward."""
    H, C = config.projection_dim, config.hidden_dim
    return 2 * 2.0 * config.n_layers * (2 * H * 4 * C + C * H)


def lstm_bytes(config: BiLMConfig, rows: int, size: int = 4) -> float:
    """Return the bytes that a token's LSTMs read and write at least, both directions,
    where a step has so many rows: recurrent weights once a step, and of activations the
    gates (written by two matrix multiplications, read, written), cells, m and
    outputs, in float32.
    size: bytes of a weight."""
    H, C = config.projection_dim, config.hidden_dim
    weights = (H * 4 * C + C * H) * size / rows
    activations = (6 * 4 * C + 4 * C + 4 * H) * 4
    return 2.0 * config.n_layers * (weights + activations)


def char_cnn_flops(config: BiLMConfig, characters: int = 15) -> float:
    """Return FLOP of the token vector of a word, forward: filters at every position up
    to a word's length and one window, highways, projection."""
    S, H = config.n_filters, config.projection_dim
    widest = max(width for width, _ in config.filters)
    positions = characters + widest
    filters = sum(width * n for width, n in config.filters) * config.char_dim
    return 2.0 * (positions * filters + 2 * config.n_highway * S * S + S * H)


def training_flops(config: BiLMConfig, logits: int, distinct: float = 0.25) -> float:
    """Return FLOP of a token in training, forward and twice as many backward: LSTMs, a
    softmax of so many logits for either direction, and the token encoder, for the share
    of a batch's tokens that are distinct words."""
    softmax = 2 * 2.0 * config.projection_dim * logits
    encoder = distinct * char_cnn_flops(config)
    return 3 * (lstm_flops(config) + softmax + encoder)


def floor(
    config: BiLMConfig, rows: int, rates: dict[str, float], precision: str
) -> dict[str, float]:
    """Return the tokens/s that operations, bytes and launches allow, each alone."""
    size = 2 if precision == "half" else 4
    return {
        "by operations": rates[precision] / lstm_flops(config),
        "by bytes": rates["bytes"] / lstm_bytes(config, rows, size),
        "by launches": rows / (LAUNCHES * config.n_layers * LAUNCH),
    }


@cache
def rates(device: str, tiny: bool) -> dict[str, float]:
    """Return the FLOP/s of a large matrix multiplication in each precision, and the
    bytes/s of a large copy, as measured."""
    size, words = (256, 1 << 20) if tiny else (8192, 1 << 29)
    found = {}
    for precision in ("float32", "tf32", "half", "bfloat16"):
        dtypes = {"half": torch.float16, "bfloat16": torch.bfloat16}
        dtype = dtypes.get(precision, torch.float32)
        a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))

        def product(a: torch.Tensor = a, b: torch.Tensor = b) -> float:
            for _ in range(10):
                a @ b
            return 20.0 * size**3

        with float32_mode(precision, torch.device(device).type):
            found[precision] = in_turn({"product": product}, 3)["product"]
    source = torch.zeros(words, device=device)
    target = torch.empty_like(source)

    def copy() -> float:
        target.copy_(source)
        return 2.0 * source.nbytes

    return {**found, "bytes": in_turn({"copy": copy}, 3)["copy"]}
