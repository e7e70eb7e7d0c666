"""How a biLM learns from the gradients that listeners add."""

from collections.abc import Callable
from typing import Any

from spacy.tokens import Doc
from thinc.api import Adam, Optimizer

from .deferred import DeferredBackward
from .encoder import Encoder, shim_of


class FineTuning:
    """The updates of one component's biLM.

    learn_rate: of its own, None for the optimizer's. unfreeze_every: updates after
    which one more layer learns, from the top down (Howard & Ruder 2018); 0 for all.
    """

    def __init__(
        self,
        encoder: Encoder,
        alloc: Callable[[Doc], Any],
        learn_rate: float | None,
        unfreeze_every: int,
    ) -> None:
        self.encoder = encoder
        self.learn_rate, self.unfreeze_every = learn_rate, unfreeze_every
        self.deferred = DeferredBackward(alloc)
        self.n_updates = 0
        self._own: Optimizer | None = None
        if learn_rate is not None:
            self._own = Adam(learn_rate, use_averages=False)
        # For gradients that come after their update was finished.
        self._late: Optimizer | None = None

    def begin(self) -> None:
        """An update begins. nlp.update finishes its components in their order, this one
        before the listeners have added anything: what they added last time is due."""
        self.deferred.run()
        if self._late is not None:
            self._step(self._late)
            self._late = None

    def finish(self, sgd: Optimizer) -> None:
        self.deferred.run()
        self.n_updates += 1
        self._step(sgd)
        self._late = sgd if self.deferred.is_waiting else None

    def forget(self) -> None:
        """No gradient is awaited any more."""
        self.deferred.forget()
        self._late = None

    def _step(self, sgd: Optimizer) -> None:
        if self.unfreeze_every:
            shim = shim_of(self.encoder)
            thawed = 1 + (self.n_updates - 1) // self.unfreeze_every
            shim.thawed = min(thawed, shim.bilm_config.n_layers + 1)
        self.encoder.finish_update(self._own or sgd)
