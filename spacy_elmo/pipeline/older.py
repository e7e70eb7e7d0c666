"""Fine-tuning as version 0.2 set it: `learn_rate` and `unfreeze_every` of the
component. Both work until version 0.4."""

import warnings

from thinc.api import Adam, Optimizer

from ..errors import Warnings
from .encoder import Encoder, shim_of
from .fine_tuning import FineTuning
from .settings import ElmoSettings


class OldFineTuning(FineTuning):
    """The updates of a biLM by an Adam of its own, if learn_rate is a number: its
    highest rate, which falls as that of the optimizer falls from its highest.

    After every unfreeze_every updates one more layer learns, from the top down; if it
    is 0, all do from the start.
    """

    def __init__(self, encoder: Encoder, settings: ElmoSettings) -> None:
        self.learn_rate, self.unfreeze_every = settings.learn_rate, 200
        if settings.unfreeze_every is not None:
            self.unfreeze_every = settings.unfreeze_every
        super().__init__(encoder, learn_rate_factor=1.0)

    def restart(self) -> None:
        """Begin a training, with a new Adam."""
        super().restart()
        self.n_updates, self.highest_rate = 0, 0.0
        rate = self.learn_rate
        self.adam = None if rate is None else Adam(rate, use_averages=False)

    def begin(self, drop: float) -> None:
        """Begin as `FineTuning.begin` does, and unfreeze a layer when it is its
        turn."""
        super().begin(drop)
        if self.unfreeze_every:
            more = self.n_updates // self.unfreeze_every
            shim_of(self.encoder).unfreeze(more + 1)

    def finish(self, sgd: Optimizer) -> None:
        """Make a step as `FineTuning.finish` does. Warn [ELW71] at the first one."""
        if not self.n_updates:
            rate, every = self.learn_rate, self.unfreeze_every
            warnings.warn(Warnings.ELW71(rate=rate, every=every), stacklevel=2)
        self.n_updates += 1
        if self.adam is not None and self.learn_rate is not None:
            highest = self.highest_rate = max(self.highest_rate, sgd.learn_rate)
            share = sgd.learn_rate / highest if highest else 1.0
            self.adam.learn_rate = self.learn_rate * share
        super().finish(self.adam or sgd)
