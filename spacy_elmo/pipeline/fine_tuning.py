"""How a biLM learns from the gradients that listeners add.

In spaCy's own protocol the last listener runs the upstream's backward pass, so when
that one is frozen or disabled the upstream silently learns nothing. Here listeners only
add, and the component runs the pass when its update is finished.

`nlp.update(sgd=...)` finishes its components in their order, this one before its
listeners have added anything. So a component that learns is in one of three states:

IDLE     no gradient is awaited.
WAITING  a forward pass was made, and listeners may add gradients to it.
READY    the update was finished before the gradients had come: they are still awaited,
         and the step of the optimizer is due.

           forward pass            finish, no gradient yet
    IDLE -----------------> WAITING -----------------------> READY
      ^                        |                               |
      |   finish, gradients    |                               |   complete
      +------------------------+<------------------------------+

A READY update is completed as soon as the last listening component has finished its
own. Where that one is frozen or excluded from the update, nothing says that the update
is over. Then it is completed before the weights are next looked at: by a prediction, by
a new update, or when the weights are saved, copied or replaced.
"""

import copy
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from spacy.tokens import Doc
from thinc.api import Adam, Optimizer, set_dropout_rate

from ..errors import Warnings
from ..machine import ProcessLock
from .encoder import Encoder, LayerBatch, shim_of
from .settings import ElmoSettings
from .windows import token_hash


@dataclass(eq=False)
class ForwardPass:
    """A batch of Docs, the number of tokens of each, its backward pass, and the
    gradient of its layers, summed over the listeners; None until there is one."""

    docs: list[Doc]
    lengths: list[int]
    backprop: Callable[[LayerBatch], Any]
    gradient: LayerBatch | None = None

    def __post_init__(self) -> None:
        self.index = {id(doc): d for d, doc in enumerate(self.docs)}
        self.hashes = [token_hash(doc) for doc in self.docs]

    def holds(self, doc: Doc) -> bool:
        """Return whether a Doc is one of the batch."""
        return id(doc) in self.index

    def has_read(self, doc: Doc) -> bool:
        """Return whether a Doc is one of the batch, with the tokens that it had."""
        return self.holds(doc) and self.hashes[self.index[id(doc)]] == token_hash(doc)


class FineTuning:
    """The updates of one component's biLM."""

    def __init__(self, encoder: Encoder, learn_rate_factor: float) -> None:
        self.encoder = encoder
        shim_of(encoder).learn_rate_factor = learn_rate_factor
        self._warned = False
        self._completing = ProcessLock()
        self.forget()

    def forget(self) -> None:
        """Await no gradients any more: IDLE."""
        self._awaited: list[ForwardPass] = []
        # The optimizer of an update that is READY, with the rate that it had.
        self._ready: Optimizer | None = None

    def begin(self, drop: float) -> None:
        """Complete the update before, and set the dropout."""
        self.complete()
        set_dropout_rate(self.encoder, drop)

    def complete(self) -> None:
        """Run the backward passes that have gradients, and the step of an update that
        is READY."""
        with self._completing:  # threads that predict complete it once
            self._run_backward()
            if self._ready is not None:
                try:
                    self.encoder.finish_update(self._ready)
                finally:  # not before, or other threads would see a part of the step
                    self._ready = None

    def complete_before(self, docs: Iterable[Doc]) -> None:
        """Complete an update that is READY before Docs are read. If they are its own
        Docs, a component of this update annotates them, and it is not over."""
        if self._ready is not None and not any(
            each.holds(doc) for doc in docs for each in self._awaited
        ):
            self.complete()

    def expect(self, forward_pass: ForwardPass) -> None:
        """Remember a forward pass whose gradients are to come."""
        self._awaited.append(forward_pass)

    def add(self, docs: list[Doc], d_layers: Callable[[], LayerBatch]) -> None:
        """Add the gradient that a listener has for the layers of Docs, if one is
        awaited for them."""
        newest_first = self._awaited[::-1]
        passes = [
            next((each for each in newest_first if each.has_read(doc)), None)
            for doc in docs
        ]
        if None in passes and self._awaited and not self._warned:
            self._warned = True
            warnings.warn(Warnings.ELW27(), stacklevel=2)
        if not any(passes):
            return
        gradient, whole = d_layers(), passes[0]
        if whole and whole.docs == docs and all(each is whole for each in passes):
            if whole.gradient is None:
                whole.gradient = gradient
            else:
                whole.gradient.values += gradient.values
            return
        n_layers, _, width = gradient.values.shape
        for each, doc, d_LTD in zip(passes, docs, gradient):
            if each is not None:
                if each.gradient is None:
                    n_tokens = sum(each.lengths)
                    zeros_LND = self.encoder.ops.alloc3f(n_layers, n_tokens, width)
                    each.gradient = LayerBatch(zeros_LND, each.lengths)
                sum_LTD: Any = each.gradient[each.index[id(doc)]]
                sum_LTD += d_LTD

    def finish(self, sgd: Optimizer) -> None:
        """Run the backward passes that have gradients, and one step of the optimizer.
        If the newest has none yet, the update is READY."""
        self._run_backward()
        self.encoder.finish_update(sgd)
        self._ready = copy.copy(sgd) if self._awaited else None

    def _run_backward(self) -> None:
        """Run the backward passes of the batches that have gradients."""
        # The newest may wait for listeners to come; older ones had their chance.
        waiting = [each for each in self._awaited if each.gradient is None]
        before, self._awaited = self._awaited, waiting[-1:]
        for each in before:
            if each.gradient is not None:
                each.backprop(each.gradient)


class OldFineTuning(FineTuning):
    """Fine-tuning as version 0.2 set it. If `learn_rate` of the component is a number,
    the biLM has an Adam of its own. The number is its highest rate, which falls as that
    of the optimizer falls from its highest.

    After every `unfreeze_every` updates one more layer learns, from the top down; if it
    is 0, all do from the start. Both settings work until version 0.4.
    """

    def __init__(self, encoder: Encoder, settings: ElmoSettings) -> None:
        super().__init__(encoder, learn_rate_factor=1.0)
        rate, every = settings.learn_rate, settings.unfreeze_every
        self.learn_rate, self.unfreeze_every = rate, 200 if every is None else every
        self.n_updates, self.highest_rate = 0, 0.0
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


def fine_tuning_of(encoder: Encoder, settings: ElmoSettings) -> FineTuning:
    """Return the fine-tuning that the settings of a component ask for."""
    if settings.learn_rate is None and settings.unfreeze_every is None:
        return FineTuning(encoder, settings.learn_rate_factor)
    return OldFineTuning(encoder, settings)
