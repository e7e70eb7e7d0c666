"""Context-independent token vectors: char-CNN, highway, projection (or a word table).

Paper section 3.4; Kim et al. 2015 for the char-CNN, Srivastava et al. 2015 for the
highway. Shapes: V distinct words, C characters, d character width, S filters, W the
widest one's width, H output.
"""

import math
from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import BiLMConfig
from .kernels.memo import pinned, state_of
from .kernels.products import Product

WORDS_AT_ONCE = 256
WORDS_A_PRODUCT = 32  # of like length


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
        self.by_carry, self.by_transform = Product(), Product()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        std = 1 / math.sqrt(self.carry_bias.numel())
        nn.init.normal_(self.carry_weight, std=std, generator=generator)
        nn.init.normal_(self.transform_weight, std=std, generator=generator)
        nn.init.constant_(self.carry_bias, -2.0)  # starts near the identity
        nn.init.zeros_(self.transform_bias)

    def forward(self, x_VS: Tensor) -> Tensor:
        carry_VS = self.by_carry(x_VS, self.carry_weight, self.carry_bias).sigmoid()
        new_VS = self.by_transform(
            x_VS, self.transform_weight, self.transform_bias
        ).relu()
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
        self.by_filters, self.by_projection = Product(), Product()
        self._made: tuple[Any, Any, Tensor] | None = None
        if config.token_projection:
            shape = config.word_dim + config.n_filters, config.projection_dim
            self.projection_weight = nn.Parameter(torch.empty(shape))
            self.projection_bias = nn.Parameter(torch.empty(config.projection_dim))

    def __getstate__(self) -> dict[str, Any]:
        """A copy makes its own."""
        return {**self.__dict__, "_made": None}

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
        if ids_VC.is_cuda:  # there the host would have to wait for the lengths
            return self._encode(self._convolve(ids_VC), word_ids_V)
        # Words of like length together, and without gradients no more of them at once
        # than the processor's cache holds: a third of the memory.
        order_V = torch.argsort(self._lengths(ids_VC))
        parts = 1 if torch.is_grad_enabled() else -(-len(ids_VC) // WORDS_AT_ONCE)
        encoded = [
            self._encode(
                self._strongest(ids_VC[words]),
                None if word_ids_V is None else word_ids_V[words],
            )
            for words in order_V.tensor_split(parts)
        ]
        return torch.cat(encoded)[torch.argsort(order_V)]

    def _encode(self, strongest_VS: Tensor, word_ids_V: Tensor | None) -> Tensor:
        # The maximum is taken before bias and activation: all orders agree, since relu
        # and tanh rise, and this leaves C times fewer of them to compute.
        bias_S = torch.cat(list(self.conv_biases))
        x_VS = self.activation(strongest_VS + bias_S)
        for highway in self.highways:
            x_VS = highway(x_VS)
        if self.word_embedding is not None and word_ids_V is not None:
            words_VW = F.embedding(word_ids_V, self.word_embedding)
            x_VS = torch.cat([words_VW, x_VS], dim=1)
        weight, bias = self.projection_weight, self.projection_bias
        if weight is None or bias is None:
            return x_VS
        return self.by_projection(x_VS, weight, bias)

    @staticmethod
    def _lengths(ids_VC: Tensor) -> Tensor:
        """Characters of words without the run of equal ids that they end in, their
        padding: windows in it are all alike."""
        differs_VC = ids_VC != ids_VC[:, -1:]
        return (
            differs_VC * torch.arange(1, ids_VC.shape[1] + 1, device=ids_VC.device)
        ).amax(dim=1)

    def _strongest(self, ids_VC: Tensor) -> Tensor:
        """Every filter's maximum over all positions, (V, S), of words sorted by length.

        All filters in one product, of short words apart from long ones: three times as
        fast as a convolution for each width over the longest word's length.
        """
        W, C = self.widest_filter, ids_VC.shape[1]
        length_V = self._lengths(ids_VC)
        # One window of padding is enough. Words without room for it are convolved.
        n_short = int((length_V <= C - W).sum())
        filters = self._as_one_product()
        strongest = []
        for words in torch.arange(n_short).split(WORDS_A_PRODUCT) if n_short else ():
            longest = int(length_V[words[-1]]) + W
            windows = ids_VC[words, :longest].unfold(1, W, 1)
            chars = F.embedding(windows, self.char_embedding).flatten(2)
            found = self.by_filters(chars.flatten(0, 1), filters)
            strongest.append(found.unflatten(0, chars.shape[:2]).amax(dim=1))
        if n_short < len(ids_VC):
            strongest.append(self._convolve(ids_VC[n_short:]))
        return torch.cat(strongest)

    def _convolve(self, ids_VC: Tensor) -> Tensor:
        chars_VdC = F.embedding(ids_VC, self.char_embedding).transpose(1, 2)
        strongest = [
            F.conv1d(chars_VdC, weight).amax(dim=2) for weight in self.conv_weights
        ]
        return torch.cat(strongest, dim=1)

    def _as_one_product(self) -> Tensor:
        """(W * d, S): a column a filter, narrow ones filled up with zeros. Without
        gradients the same one as long as the filters are the same."""
        if torch.is_grad_enabled():
            return self._make_one_product()
        filters = list(self.conv_weights)
        state = state_of(filters)
        made = self._made
        if made is None or made[0] != state:
            made = state, pinned(filters), self._make_one_product()
            self._made = made
        return made[2]

    def _make_one_product(self) -> Tensor:
        columns = []
        for weight in self.conv_weights:
            n, char_dim, width = weight.shape
            rows = weight.permute(2, 1, 0).reshape(width * char_dim, n)
            missing = (self.widest_filter - width) * char_dim
            columns.append(F.pad(rows, (0, 0, 0, missing)))
        return torch.cat(columns, dim=1)


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
