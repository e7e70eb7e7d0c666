"""The biLM by the parts of fast.py, both directions at once where that is faster."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from ...machine import threads
from ..config import BiLMConfig
from ..lstm import BiLMState
from ..model import BidirectionalLM, Parts
from . import gpu_lstm, heap, one_by_one, one_row
from .choose import (
    check_precision,
    choose_directions,
    choose_lstm,
    choose_sequences,
)
from .fast import FastCharCnnEncoder, FastLstmLayer, FastPart
from .forced import force, forced_kernels
from .processor import Case, Settings, case_of, mode_of

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
            return [pair[0] for pair in both], [pair[1] for pair in both], state

        # The gradient of x_VH[...] was 6 % of a training step on an NVIDIA H200.
        def read_ahead() -> Any:
            x_NH = embedding(forward_N, x_VH)
            return self.forward_lstm(x_NH, batch_sizes, state.forward, dropout)

        def read_back() -> Any:
            x_NH = embedding(backward_N, x_VH)
            return self.backward_lstm(x_NH, batch_sizes, state.backward, dropout)

        results: Any
        if directions == "two_threads" and not (dropout and self.training):
            results = threads.at_once(read_ahead, read_back)
        else:
            one = directions == "one_thread"
            with threads.thread_count(1) if one else nullcontext():
                results = read_ahead(), read_back()
        (ahead, ahead_state), (back, back_state) = results
        return ahead, back, BiLMState(ahead_state, back_state)

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
