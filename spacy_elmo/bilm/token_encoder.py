"""Context-independent token vectors: by a char-CNN, highway layers and a projection, or
from a word embedding.

Peters et al. 2018, section 3.4; Kim et al. 2015 (char-CNN); Srivastava et al. 2015
(highway layers).

Shapes: V distinct words, C characters of a word, d width of a character, S filters,
H output.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import BiLMConfig
from .parameter import parameter


class Highway(nn.Module):
    """A highway layer.

        carry = sigmoid(x W_carry + b_carry)
        y = carry * relu(x W_transform + b_transform) + (1 - carry) * x

    The published files call this gate *carry*, although it opens the transform.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.carry_weight = parameter(width, width)
        self.carry_bias = parameter(width)
        self.transform_weight = parameter(width, width)
        self.transform_bias = parameter(width)

    def forward(self, x_VS: Tensor) -> Tensor:
        """Return y, (V, S)."""
        carry_VS = torch.sigmoid(x_VS @ self.carry_weight + self.carry_bias)
        new_VS = torch.relu(x_VS @ self.transform_weight + self.transform_bias)
        return carry_VS * new_VS + (1 - carry_VS) * x_VS


class CharCnnEncoder(nn.Module):
    """Character ids (V, C) -> token vectors (V, H). If config.word_dim > 0, there is a
    word embedding beside the char-CNN, for word ids (V,)."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.activation = torch.relu if config.activation == "relu" else torch.tanh
        self.char_embedding = parameter(config.n_characters, config.char_dim)
        self.conv_weights = nn.ParameterList(
            parameter(n, config.char_dim, width) for width, n in config.filters
        )
        self.conv_biases = nn.ParameterList(parameter(n) for _, n in config.filters)
        self.highways = nn.ModuleList(
            Highway(config.n_filters) for _ in range(config.n_highway)
        )
        self.word_embedding: nn.Parameter | None = None
        if config.word_dim:
            self.word_embedding = parameter(config.n_words, config.word_dim)
        self.projection_weight: nn.Parameter | None = None
        self.projection_bias: nn.Parameter | None = None
        if config.token_projection:
            width = config.word_dim + config.n_filters
            self.projection_weight = parameter(width, config.projection_dim)
            self.projection_bias = parameter(config.projection_dim)

    def forward(self, ids_VC: Tensor, word_ids_V: Tensor | None = None) -> Tensor:
        """Return token vectors (V, H)."""
        x_VS = self.char_features(ids_VC)
        for highway in self.highways:
            x_VS = highway(x_VS)
        if self.word_embedding is not None and word_ids_V is not None:
            words_VW = F.embedding(word_ids_V, self.word_embedding)
            x_VS = torch.cat([words_VW, x_VS], dim=1)
        return self.project(x_VS)

    def char_features(self, ids_VC: Tensor) -> Tensor:
        """Return the activated maximum of every filter over all positions, (V, S)."""
        chars_VdC = F.embedding(ids_VC, self.char_embedding).transpose(1, 2)
        largest = [
            F.conv1d(chars_VdC, weight, bias).amax(dim=2)
            for weight, bias in zip(self.conv_weights, self.conv_biases)
        ]
        return self.activation(torch.cat(largest, dim=1))

    def project(self, x_VS: Tensor) -> Tensor:
        """Return x W + b, (V, H), or x itself in models without a projection."""
        if self.projection_weight is None or self.projection_bias is None:
            return x_VS
        return x_VS @ self.projection_weight + self.projection_bias


class WordEncoder(nn.Module):
    """Word ids (V,) -> token vectors (V, H), from a word embedding."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.embedding = parameter(config.n_words, config.projection_dim)

    def forward(self, ids_V: Tensor) -> Tensor:
        """Return token vectors (V, H)."""
        return F.embedding(ids_V, self.embedding)
