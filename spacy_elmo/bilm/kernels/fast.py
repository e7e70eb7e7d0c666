"""The model with the same weights, computed by the kernels of this folder."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import embedding

from ..config import BiLMConfig
from ..lstm import BiLMState, LstmLayer
from ..model import BidirectionalLM, Parts
from ..token_encoder import CharCnnEncoder, Highway
from . import (
    autograd_lstm,
    char_cnn,
    cpu_lstm,
    cudnn_lstm,
    gpu_lstm,
    heap,
    one_by_one,
    one_row,
    threads,
)
from .choose import (
    can_share,
    check_precision,
    choose_directions,
    choose_lstm,
    choose_matmul,
    choose_recurrent_matmul,
    choose_sequences,
    choose_token_encoder,
)
from .forced import force, forced_kernels
from .forks import safe_from_forks
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

    def char_features(self, ids_VC: Tensor) -> Tensor:
        """Return the maximum of every filter, activated; words come by length."""
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


FAST = Parts(char_encoder=FastCharCnnEncoder, lstm_layer=FastLstmLayer)


class FastBidirectionalLM(FastPart, BidirectionalLM):
    """The biLM by fast parts."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__(config, FAST)

    def set_settings(self, settings: Settings) -> None:
        """Compute without gradients in this way. Raises as `check_precision`."""
        check_precision(settings.precision, next(self.parameters()).device)
        for module in self.modules():
            if isinstance(module, FastPart):
                module.settings = settings

    def read(
        self,
        x_VH: Tensor,
        forward_N: Tensor,
        backward_N: Tensor,
        batch_sizes: Sequence[int],
        state: BiLMState,
        dropout: float = 0.0,
    ) -> tuple[list[Tensor], list[Tensor], BiLMState]:
        """Read as the definition does, both directions at once where that is faster."""
        case = case_of(self.settings, state.forward.h)
        heap.keep_freed()
        n_rows, n_threads = batch_sizes[0], torch.get_num_threads()
        how = choose_sequences(case, self.config, n_rows, n_threads)
        if how == "one_by_one" and n_rows > 1 and not (dropout and self.training):
            read_one = partial(self.read, x_VH)
            return one_by_one.read(read_one, forward_N, backward_N, batch_sizes, state)
        alone = n_rows == 1
        with (
            mode_of(case),
            self._alone(case, x_VH[forward_N]) if alone else nullcontext(),
        ):
            return self._read(
                case, x_VH, forward_N, backward_N, batch_sizes, state, dropout
            )

    @contextmanager
    def _alone(self, case: Case, x_TH: Tensor) -> Iterator[None]:
        """Read one sequence inside, with one_row.py, if that is chosen for it, only
        where rounding stays small."""
        chosen = choose_lstm(case, self.config, 1) == "one_row"
        with threads.numpy_on_one_thread() if chosen else nullcontext():
            if not chosen or "lstm" in forced_kernels() or one_row.is_safe(x_TH):
                yield
            else:
                with force(lstm="cpu_lstm"):
                    yield

    def _read(
        self,
        case: Case,
        x_VH: Tensor,
        forward_N: Tensor,
        backward_N: Tensor,
        batch_sizes: Sequence[int],
        state: BiLMState,
        dropout: float,
    ) -> tuple[list[Tensor], list[Tensor], BiLMState]:
        rows = len(forward_N) / len(batch_sizes)
        directions = choose_directions(case, self.config, rows, torch.get_num_threads())
        if directions == "one_operator":
            both, state = gpu_lstm.read(
                self.forward_lstm,
                self.backward_lstm,
                embedding(torch.stack([forward_N, backward_N]), x_VH),
                batch_sizes,
                state,
                dropout,
                _matmul_dtype(case, x_VH.device.type),
            )
            ahead, back = zip(*both)
            return list(ahead), list(back), state
        if directions == "two_threads" and not (dropout and self.training):
            (ahead, ahead_state), (back, back_state) = threads.at_once(
                partial(self.forward_lstm, x_VH[forward_N], batch_sizes, state.forward),
                partial(
                    self.backward_lstm, x_VH[backward_N], batch_sizes, state.backward
                ),
            )
            return ahead, back, BiLMState(ahead_state, back_state)
        one = directions == "one_thread"
        with threads.thread_count(1) if one else nullcontext():
            return super().read(
                x_VH, forward_N, backward_N, batch_sizes, state, dropout
            )

    def join(
        self,
        x_NH: Tensor,
        ahead: Sequence[Tensor],
        back: Sequence[Tensor],
        reversed_N: Tensor,
    ) -> Tensor:
        """Join as the definition does; without a gradient each part is written where it
        stays."""
        if torch.is_grad_enabled():
            return super().join(x_NH, ahead, back, reversed_N)
        layers_LN2H = x_NH.new_empty(len(ahead) + 1, len(x_NH), 2, x_NH.shape[1])
        layers_LN2H[0] = x_NH[:, None]
        for layer_N2H, ahead_NH, back_NH in zip(layers_LN2H[1:], ahead, back):
            layer_N2H[:, 0] = ahead_NH
            layer_N2H[:, 1] = back_NH.index_select(0, reversed_N)
        return layers_LN2H.flatten(2)


def _matmul_dtype(case: Case, device: str) -> torch.dtype:
    """Return what both sides of matrix multiplications are rounded to."""
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    half = case.precision == "half" and not case.gradient
    return torch.float16 if half else case.dtype
