"""Packed sequences, read one after another, each as if it were alone.

Two or three rows take a processor with AVX2 longer to multiply than as many times one,
which one_row.py multiplies by another library (`choose_sequences` has figures).

Shapes: as in lstm.py.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..lstm import BiLMState

Layers = list[Tensor]
Read = Callable[
    [Tensor, Tensor, Sequence[int], BiLMState], tuple[Layers, Layers, BiLMState]
]


def read(
    read_one: Read,
    forward_N: Tensor,
    backward_N: Tensor,
    batch_sizes: Sequence[int],
    state: BiLMState,
) -> tuple[Layers, Layers, BiLMState]:
    """Return what `BidirectionalLM.read` returns, by a function that reads one
    sequence. Arguments are those of that method."""
    rows = positions(batch_sizes)
    aheads, backs, states = zip(
        *(
            read_one(forward_N[at_T], backward_N[at_T], [1] * len(at_T), of_one)
            for at_T, of_one in zip(rows, _singly(state))
        )
    )
    packed_N = torch.argsort(torch.cat(rows))
    ahead, back = (
        [torch.cat(outputs)[packed_N] for outputs in zip(*sequences)]
        for sequences in (aheads, backs)
    )
    return ahead, back, BiLMState.join(states)


def positions(batch_sizes: Sequence[int]) -> list[Tensor]:
    """Return the packed position of each step (T,) of each sequence."""
    sizes_T = torch.tensor(batch_sizes)
    first_T = sizes_T.cumsum(0) - sizes_T
    return [first_T[sizes_T > row] + row for row in range(batch_sizes[0])]


def _singly(state: BiLMState) -> list[BiLMState]:
    n_rows = state.forward.h.shape[1]
    return [state.rows(slice(row, row + 1)) for row in range(n_rows)]
