"""The random weights that training starts from, as published."""

import math
from typing import cast

import torch
from torch import nn
from torch.nn.init import constant_, normal_, zeros_

from .lstm import LstmLayer
from .token_encoder import CharCnnEncoder, Highway, WordEncoder


def draw_weights(module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Draw the weights of a biLM, or of a part of one, in place."""
    for part in module.modules():
        if isinstance(part, CharCnnEncoder):
            _draw_char_cnn(part, generator)
        elif isinstance(part, WordEncoder):
            normal_(part.embedding, generator=generator)
        elif isinstance(part, LstmLayer):
            _draw_lstm(part, generator)


def _draw_char_cnn(encoder: CharCnnEncoder, generator: torch.Generator | None) -> None:
    normal_(encoder.char_embedding, generator=generator)
    with torch.no_grad():
        encoder.char_embedding[0] = 0  # the absent character
    if encoder.word_embedding is not None:
        normal_(encoder.word_embedding, generator=generator)
    for weight, bias in zip(encoder.conv_weights, encoder.conv_biases):
        fan_in = weight.shape[1] * weight.shape[2]
        normal_(weight, std=1 / math.sqrt(fan_in), generator=generator)
        zeros_(bias)
    for highway in encoder.highways:
        _draw_highway(cast(Highway, highway), generator)
    if encoder.projection_weight is not None and encoder.projection_bias is not None:
        std = 1 / math.sqrt(encoder.projection_weight.shape[0])
        normal_(encoder.projection_weight, std=std, generator=generator)
        zeros_(encoder.projection_bias)


def _draw_highway(highway: Highway, generator: torch.Generator | None) -> None:
    std = 1 / math.sqrt(highway.carry_bias.numel())
    normal_(highway.carry_weight, std=std, generator=generator)
    normal_(highway.transform_weight, std=std, generator=generator)
    constant_(highway.carry_bias, -2.0)  # near the identity
    zeros_(highway.transform_bias)


def _draw_lstm(layer: LstmLayer, generator: torch.Generator | None) -> None:
    std = 1 / math.sqrt(2 * layer.config.projection_dim)
    normal_(layer.weight_x, std=std, generator=generator)
    normal_(layer.weight_h, std=std, generator=generator)
    zeros_(layer.bias)
    if layer.weight_p is not None:
        std = 1 / math.sqrt(layer.config.hidden_dim)
        normal_(layer.weight_p, std=std, generator=generator)
