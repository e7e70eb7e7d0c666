"""Context-independent token vectors: char-CNN, highway, projection (or a word table).

Paper section 3.4; Kim et al. 2015 for the char-CNN, Srivastava et al. 2015 for the
highway. Shapes: V distinct words, C characters, d character width, S filters, H output.
"""

import math
from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import BiLMConfig


class Highway(nn.Module):
    """y = c * relu(x W_transform + b) + (1 - c) * x,  c = sigmoid(x W_carry + b).

    The gate called *carry* in the published files opens the transform.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.carry_weight = nn.Parameter(torch.empty(width, width))
        self.carry_bias = nn.Parameter(torch.empty(width))
        self.transform_weight = nn.Parameter(torch.empty(width, width))
        self.transform_bias = nn.Parameter(torch.empty(width))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        std = 1 / math.sqrt(self.carry_bias.numel())
        nn.init.normal_(self.carry_weight, std=std, generator=generator)
        nn.init.normal_(self.transform_weight, std=std, generator=generator)
        nn.init.constant_(self.carry_bias, -2.0)  # starts near the identity
        nn.init.zeros_(self.transform_bias)

    def forward(self, x_VS: Tensor) -> Tensor:
        carry_VS = torch.sigmoid(torch.addmm(self.carry_bias, x_VS, self.carry_weight))
        new_VS = torch.relu(
            torch.addmm(self.transform_bias, x_VS, self.transform_weight)
        )
        # Where products are made in bfloat16, the sum is not.
        return torch.lerp(x_VS, new_VS.to(x_VS.dtype), carry_VS.to(x_VS.dtype))


class CharCnnEncoder(nn.Module):
    """Character ids (V, C), and word ids (V,) where a word embedding stands beside the
    char-CNN -> token vectors (V, H)."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.activation: Callable[[Tensor], Tensor]
        self.activation = torch.relu if config.activation == "relu" else torch.tanh
        self.widest_filter = max(width for width, _ in config.filters)
        self.char_embedding = nn.Parameter(
            torch.empty(config.n_characters, config.char_dim)
        )
        self.conv_weights = nn.ParameterList(
            nn.Parameter(torch.empty(n, config.char_dim, width))
            for width, n in config.filters
        )
        self.conv_biases = nn.ParameterList(
            nn.Parameter(torch.empty(n)) for _, n in config.filters
        )
        self.highways = nn.ModuleList(
            Highway(config.n_filters) for _ in range(config.n_highway)
        )
        self.word_embedding: nn.Parameter | None = None
        if config.word_dim:
            shape = config.n_words, config.word_dim
            self.word_embedding = nn.Parameter(torch.empty(shape))
        self.projection_weight: nn.Parameter | None = None
        self.projection_bias: nn.Parameter | None = None
        if config.token_projection:
            shape = config.word_dim + config.n_filters, config.projection_dim
            self.projection_weight = nn.Parameter(torch.empty(shape))
            self.projection_bias = nn.Parameter(torch.empty(config.projection_dim))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        nn.init.normal_(self.char_embedding, generator=generator)
        with torch.no_grad():
            self.char_embedding[0] = 0  # the absent character
        if self.word_embedding is not None:
            nn.init.normal_(self.word_embedding, generator=generator)
        for weight, bias in zip(self.conv_weights, self.conv_biases):
            fan_in = weight.shape[1] * weight.shape[2]
            nn.init.normal_(weight, std=1 / math.sqrt(fan_in), generator=generator)
            nn.init.zeros_(bias)
        for highway in self.highways:
            cast(Highway, highway).reset_parameters(generator)
        if self.projection_weight is not None and self.projection_bias is not None:
            std = 1 / math.sqrt(self.projection_weight.shape[0])
            nn.init.normal_(self.projection_weight, std=std, generator=generator)
            nn.init.zeros_(self.projection_bias)

    def forward(self, ids_VC: Tensor, word_ids_V: Tensor | None = None) -> Tensor:
        chars_VdC = F.embedding(ids_VC, self.char_embedding).transpose(1, 2)
        # The maximum is taken before the activation, which both orders agree on since
        # relu and tanh rise, and which leaves C times fewer activations to compute.
        pooled = [
            F.conv1d(chars_VdC, weight).amax(dim=2) + bias
            for weight, bias in zip(self.conv_weights, self.conv_biases)
        ]
        x_VS = self.activation(torch.cat(pooled, dim=1))
        for highway in self.highways:
            x_VS = highway(x_VS)
        if self.word_embedding is not None and word_ids_V is not None:
            words_VW = F.embedding(word_ids_V, self.word_embedding)
            x_VS = torch.cat([words_VW, x_VS], dim=1)
        weight, bias = self.projection_weight, self.projection_bias
        if weight is None or bias is None:
            return x_VS
        return torch.addmm(bias, x_VS, weight)


class WordEncoder(nn.Module):
    """Word ids (V,) -> token vectors (V, H), from a table."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.embedding = nn.Parameter(
            torch.empty(config.n_words, config.projection_dim)
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        nn.init.normal_(self.embedding, generator=generator)

    def forward(self, ids_V: Tensor) -> Tensor:
        return F.embedding(ids_V, self.embedding)
