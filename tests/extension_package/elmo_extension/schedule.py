"""A schedule: the inverse square root of the step (Vaswani et al. 2017)."""

from collections.abc import Callable

from spacy_elmo.registry import registry


@registry.schedules("elmo-extension.InverseSquareRoot.v1")
def inverse_square_root(warmup_steps: int = 100) -> Callable[[int, int], float]:
    """Make a schedule that rises for warmup_steps, then falls."""

    def factor(step: int, n_steps: int) -> float:
        return min((step + 1) / warmup_steps, (warmup_steps / (step + 1)) ** 0.5)

    return factor
