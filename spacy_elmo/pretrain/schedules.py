"""Learning-rate schedules: factors of the learning rate, by registered name.

A schedule is a pure function of the step and the number of steps, so that a run has
nothing to restore of it. All of these rise linearly over warmup_steps, or a tenth of
all steps if that is less. `final` is the factor at the end. A new schedule is a
function with an entry point in `spacy_elmo_schedules`:

    @registry.schedules("my-package.Halving.v1")
    def halving(every: int = 1000) -> Schedule:
        return lambda step, n_steps: 0.5 ** (step // every)
"""

import math
from collections.abc import Callable
from typing import Annotated

from pydantic import Field, validate_call

from ..bilm import MAX_NUMBER
from ..registry import registry

Steps = Annotated[int, Field(ge=0)]
# Finite, and far from where float32 ends.
Factor = Annotated[float, Field(ge=0, le=MAX_NUMBER)]

# Step, and the number of steps -> a factor of the learning rate.
Schedule = Callable[[int, int], float]


@registry.schedules("spacy-elmo.WarmupCosine.v1")
@validate_call
def warmup_cosine(warmup_steps: Steps = 200, final: Factor = 0.05) -> Schedule:
    """Make a schedule that falls along a cosine after the rise."""
    return _rise_and_fall(
        warmup_steps,
        lambda done: final + (1 - final) * 0.5 * (1 + math.cos(math.pi * done)),
    )


@registry.schedules("spacy-elmo.WarmupLinear.v1")
@validate_call
def warmup_linear(warmup_steps: Steps = 200, final: Factor = 0.0) -> Schedule:
    """Make a schedule that falls linearly after the rise."""
    return _rise_and_fall(warmup_steps, lambda done: 1 - (1 - final) * done)


@registry.schedules("spacy-elmo.WarmupStableDecay.v1")
@validate_call
def warmup_stable_decay(
    warmup_steps: Steps = 200, decay_steps: Steps = 1000, final: Factor = 0.0
) -> Schedule:
    """Make a schedule that stays after the rise, and falls linearly in the last
    decay_steps, or half of all steps if that is less (Hu et al. 2024).

    If warmup_steps are at most a tenth of all, the factor does not depend on the number
    of steps until the fall. Until then a run can be made longer or shorter."""
    rise = constant(warmup_steps)

    def factor(step: int, n_steps: int) -> float:
        left = max(0, n_steps - step) / max(1, min(decay_steps, n_steps // 2))
        falling = 1.0 if left >= 1 else final + (1 - final) * left
        return rise(step, n_steps) * falling

    return factor


@registry.schedules("spacy-elmo.Constant.v1")
@validate_call
def constant(warmup_steps: Steps = 0) -> Schedule:
    """Make a schedule that stays after the rise."""
    return _rise_and_fall(warmup_steps, lambda done: 1.0)


def _rise_and_fall(warmup_steps: int, fall: Callable[[float], float]) -> Schedule:
    """Return a schedule that rises, and then falls with the share of the later steps
    that is done."""

    def factor(step: int, n_steps: int) -> float:
        warmup = min(warmup_steps, n_steps // 10)
        if step < warmup:
            return (step + 1) / (warmup + 1)
        return fall(min(1.0, (step - warmup) / max(1, n_steps - warmup)))

    return factor
