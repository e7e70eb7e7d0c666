"""The random weights that training starts from, as in bilm-tf."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.init import constant_, normal_, zeros_

from .lstm import LstmLayer
from .token_encoder import CharCnnEncoder, WordEncoder


def draw_weights(module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Draw the weights of a biLM, or of a part of one, in place: normal with a standard
    deviation of 1 / sqrt(fan-in)."""

    def draw(weight: Tensor, fan_in: int = 1) -> None:
        normal_(weight, std=1 / math.sqrt(fan_in), generator=generator)

    for part in module.modules():
        if isinstance(part, CharCnnEncoder):
            _draw_char_cnn(part, draw)
        elif isinstance(part, WordEncoder):
            draw(part.embedding)
        elif isinstance(part, LstmLayer):
            for weight in (part.weight_x, part.weight_h):
                draw(weight, 2 * part.config.projection_dim)
            zeros_(part.bias)
            if part.weight_p is not None:
                draw(part.weight_p, part.config.hidden_dim)


def _draw_char_cnn(encoder: CharCnnEncoder, draw: Any) -> None:
    draw(encoder.char_embedding)
    with torch.no_grad():
        encoder.char_embedding[0] = 0  # "no token here"
    if encoder.word_embedding is not None:
        draw(encoder.word_embedding)
    for weight, bias in zip(encoder.conv_weights, encoder.conv_biases):
        draw(weight, weight.shape[1] * weight.shape[2])
        zeros_(bias)
    for highway in encoder.highways:
        weights: Any = highway
        draw(weights.carry_weight, len(weights.carry_bias))
        draw(weights.transform_weight, len(weights.carry_bias))
        constant_(weights.carry_bias, -2.0)  # near the identity
        zeros_(weights.transform_bias)
    if encoder.projection_weight is not None and encoder.projection_bias is not None:
        draw(encoder.projection_weight, len(encoder.projection_weight))
        zeros_(encoder.projection_bias)
