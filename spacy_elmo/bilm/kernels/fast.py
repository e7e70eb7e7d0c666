"""The parts of the model with the same weights, by the kernels of this folder."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

import torch
from torch import Tensor

from ...machine import safe_from_forks, threads
from ..config import BiLMConfig
from ..lstm import LstmLayer
from ..token_encoder import CharCnnEncoder, Highway
from . import autograd_lstm, char_cnn, cpu_lstm, cudnn_lstm, one_row
from .choose import (
    can_share,
    choose_lstm,
    choose_matmul,
    choose_recurrent_matmul,
    choose_token_encoder,
)
from .matmul import Rule, TorchMatmul, Weight
from .memo import Derived
from .processor import Case, Settings, case_of, mode_of

# Words encoded at once without gradients: as many as the processor's cache holds, which
# takes a third of the memory.
WORDS_AT_ONCE = 256


class FastPart:
    """A part whose kernels depend on what the user set for the model."""

    settings = Settings()


class _Weight:
    """A weight to multiply by: itself with a gradient, a prepared copy without."""

    def __init__(self) -> None:
        self._prepared = Derived(_prepare)

    def __call__(self, case: Case, *weights: Tensor) -> TorchMatmul:
        """Return what multiplies by a weight, or by all filters of a char-CNN."""
        if case.gradient:
            return TorchMatmul(_joined(weights))
        return self._prepared(*weights, rules=choose_matmul(case))

    def linear(self, case: Case, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return x W + b."""
        return self(case, weight).at(len(x)).linear(x, bias)


def _prepare(*weights: Tensor, rules: Sequence[Rule]) -> TorchMatmul:
    return Weight(partial(_joined, weights), rules=rules)


def _joined(weights: Sequence[Tensor]) -> Tensor:
    return char_cnn.join_filters(*weights) if weights[0].ndim == 3 else weights[0]


class FastHighway(FastPart, Highway):
    """A highway layer with prepared weights."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self._carry, self._transform = _Weight(), _Weight()

    def forward(self, x_VS: Tensor) -> Tensor:
        """Return y, (V, S)."""
        case = case_of(self.settings, self.carry_weight)
        weights = self.carry_weight, self.carry_bias
        carry_VS = self._carry.linear(case, x_VS, *weights).sigmoid()
        weights = self.transform_weight, self.transform_bias
        new_VS = self._transform.linear(case, x_VS, *weights).relu()
        # Where matrices are multiplied in bfloat16, the sum is not formed in it.
        return torch.lerp(x_VS, new_VS.to(x_VS.dtype), carry_VS.to(x_VS.dtype))


class FastCharCnnEncoder(FastPart, CharCnnEncoder):
    """A char-CNN that reads words of like length together."""

    highway = FastHighway

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__(config)
        self._filters, self._projection = _Weight(), _Weight()

    def forward(self, ids_VC: Tensor, word_ids_V: Tensor | None = None) -> Tensor:
        """Return token vectors (V, H)."""
        case = case_of(self.settings, self.char_embedding)
        with safe_from_forks(), mode_of(case):
            by_definition = choose_token_encoder(case) == "definition"
            if by_definition or case.processor.device != "cpu":  # lengths are not known
                return super().forward(ids_VC, word_ids_V)
            order_V = torch.argsort(char_cnn.lengths(ids_VC))
            # The shortest word is read more than once.
            n_more = char_cnn.n_more(len(ids_VC)) if case.gradient else 0
            read = torch.cat([order_V[:1].expand(n_more), order_V])
            n_parts = 1 if case.gradient else -(-len(ids_VC) // WORDS_AT_ONCE)
            shared = len(ids_VC) >= WORDS_AT_ONCE and can_share(
                case, torch.get_num_threads()
            )
            # An autocast is of this thread alone.
            shared = shared and not torch.is_autocast_enabled(ids_VC.device.type)
            n_parts += n_parts % 2 if shared else 0
            encoded = list(read.tensor_split(n_parts))
            left = iter(list(enumerate(encoded))[::-1])  # the longest words first

            def encode_parts() -> None:
                for part, words in left:
                    ids = None if word_ids_V is None else word_ids_V[words]
                    encoded[part] = super(FastCharCnnEncoder, self).forward(
                        ids_VC[words], ids
                    )

            if shared:
                threads.at_once(encode_parts, encode_parts)
            else:
                encode_parts()
            return torch.cat(encoded)[n_more:][torch.argsort(order_V)]

    def encode_parts(
        self, parts: Sequence[Tensor], word_ids_V: Tensor | None = None
    ) -> Tensor:
        """Return token vectors (V, H) of words in several parts, each as wide as its
        longest word needs it."""
        return super().forward(tuple(parts), word_ids_V)  # type: ignore[arg-type]

    def char_features(self, ids_VC: Tensor | tuple[Tensor, ...]) -> Tensor:
        """Return the maximum of every filter, activated, of words that come by length,
        or of several parts of them."""
        if isinstance(ids_VC, tuple):
            return torch.cat([self.char_features(part) for part in ids_VC])
        case = case_of(self.settings, self.char_embedding)
        if choose_token_encoder(case) == "definition":
            return super().char_features(ids_VC)
        weights = list(self.conv_weights)
        filters = self._filters(case, *weights)
        by_length = case.processor.device == "cpu"
        largest_VS = char_cnn.run(
            self.char_embedding, weights, filters, ids_VC, sorted_by_length=by_length
        )
        # The bias is added after the maximum, which leaves C times fewer sums.
        return self.activation(largest_VS + torch.cat(list(self.conv_biases)))

    def project(self, x_VS: Tensor) -> Tensor:
        """Return x W + b, (V, H); x itself in models without a projection."""
        weight, bias = self.projection_weight, self.projection_bias
        if weight is None or bias is None:
            return x_VS
        case = case_of(self.settings, weight)
        return self._projection.linear(case, x_VS, weight, bias)


class FastLstmLayer(FastPart, LstmLayer):
    """An LSTM layer by the kernel that is chosen for it."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__(config)
        self._packed = Derived(cpu_lstm.pack)
        self._flattened = Derived(cudnn_lstm.flatten)

    def forward(
        self, x_NH: Tensor, batch_sizes: Sequence[int], h_BH: Tensor, c_BC: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return outputs (N, H), and every sequence's last h (B, H) and c (B, C)."""
        # Under autocast matrices are rounded to be multiplied; the state is carried in
        # float32, since its errors would add up over a text.
        device, dtype = x_NH.device.type, h_BH.dtype
        autocast = torch.is_autocast_enabled(device)
        if autocast:
            dtype = torch.get_autocast_dtype(device)
        case = case_of(self.settings, self.weight_x)
        kernel = choose_lstm(case, self.config, batch_sizes[0])
        with torch.autocast(device, enabled=False) if autocast else nullcontext():
            inputs = x_NH.to(h_BH.dtype), batch_sizes, h_BH, c_BC
            every = self.weight_x, self.weight_h, self.bias, self.weight_p
            weights = [weight for weight in every if weight is not None]
            forget_bias = self.config.forget_bias
            if kernel == "cudnn_lstm":
                make = cudnn_lstm.reorder if case.gradient else self._flattened
                return cudnn_lstm.run(
                    self, make(*weights, forget_bias=forget_bias), *inputs
                )
            if kernel == "autograd_lstm":
                return autograd_lstm.run(self, *inputs, dtype)
            if kernel in ("one_row", "cpu_lstm"):
                rules, recurrent = choose_matmul(case), choose_recurrent_matmul(case)
                packed = self._packed(
                    *weights, forget_bias=forget_bias, rules=rules, recurrent=recurrent
                )
                run = one_row.run if kernel == "one_row" else cpu_lstm.run
                return run(self, packed, *inputs)
            return super().forward(*inputs)
