"""The state that reading the same words again and again leads to."""

import warnings
from collections.abc import Callable

from ..errors import Warnings
from .lstm import BiLMState

# It is taken as reached when a pass moves it by less than this part of its largest
# value: a few roundings of float32. With <S> </S> that takes about 120 passes at the
# small published size.
TOLERANCE = 1e-6
PASSES = 200


def steady_state(read: Callable[[BiLMState], BiLMState], state: BiLMState) -> BiLMState:
    """Call `read` with the state that it returned before, until that no longer changes,
    and return it. Warn [ELW51] if it goes on changing: cells of a model without
    cell_clip may grow with every sentence."""
    for _ in range(PASSES):
        before, state = state, read(state)
        moves = [
            float((new - old).abs().max() / new.abs().max())
            for directions in zip(before, state)
            for old, new in zip(*directions)
        ]
        if max(moves) < TOLERANCE:
            return state
    warnings.warn(Warnings.ELW51(passes=PASSES), stacklevel=6)
    return state
