"""How a biLM learns from the gradients that listeners add."""

from thinc.api import Adam, Optimizer

from .deferred import DeferredBackward
from .encoder import Encoder, shim_of


class FineTuning:
    """The updates of one component's biLM.

    Args:
        encoder: Holds the biLM.
        learn_rate: Of its own, None for the optimizer's.
        unfreeze_every: Updates after which one more layer learns, from the top down
            (Howard & Ruder 2018); 0 for all from the start.
    """

    def __init__(
        self, encoder: Encoder, learn_rate: float | None, unfreeze_every: int
    ) -> None:
        self.encoder = encoder
        self.learn_rate, self.unfreeze_every = learn_rate, unfreeze_every
        self.deferred = DeferredBackward()
        self._own: Optimizer | None = None
        # For gradients that come after their update was finished.
        self._late: Optimizer | None = None
        self.restart()

    def restart(self) -> None:
        """Begin to learn from the start."""
        self.forget()
        self.n_updates = 0
        rate = self.learn_rate
        self._own = None if rate is None else Adam(rate, use_averages=False)

    def begin(self) -> None:
        """Apply what is due before an update's forward pass.

        nlp.update finishes its components in their order, this one before the listeners
        have added anything: what they added last time is due.
        """
        self.deferred.run()
        if self._late is not None:
            self._step(self._late)
            self._late = None

    def finish(self, sgd: Optimizer) -> None:
        """Run the backward passes that are due, and one step of the optimizer."""
        self.deferred.run()
        self.n_updates += 1
        self._step(sgd)
        self._late = sgd if self.deferred.is_waiting else None

    def forget(self) -> None:
        """Await no gradients any more."""
        self.deferred.forget()
        self._late = None

    def _step(self, sgd: Optimizer) -> None:
        if self.unfreeze_every:
            shim = shim_of(self.encoder)
            thawed = 1 + (self.n_updates - 1) // self.unfreeze_every
            shim.thawed = min(thawed, shim.bilm_config.n_layers + 1)
        self.encoder.finish_update(self._own or sgd)
